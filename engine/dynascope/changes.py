"""What changed since an earlier compilation, so that another one was made: read off the guard that failed.

change_of(guard of `pos`, values)  ->  ChangeFact("pos", "number", "6", "7")
"""

from __future__ import annotations

import sys
import types
from types import CodeType
from typing import Any

import torch

from dynascope.frame.stack_names import in_users_words
from dynascope.guards.global_state import GlobalStateIs
from dynascope.guards.guard import (
    DictionaryKeysAre,
    Equals,
    Guard,
    IdentityIs,
    IsSameObject,
    LengthIs,
    NoneIsAnother,
    NotSameObject,
    TruthIs,
    TypeIs,
    short_repr,
)
from dynascope.guards.source import AttributeSource, DictionaryAttributeSource, FrameValues, Source, UpcomingSource
from dynascope.guards.tensor_guard import TensorMatches
from dynascope.guards.world import WorldIs
from dynascope.meta_kernels.type_names import type_of
from dynascope.report.facts import EMPTY, NOT_THERE, ONE_OBJECT, SEVERAL_OBJECTS, Cause, ChangeFact

OBJECTS = (ONE_OBJECT, SEVERAL_OBJECTS)


def change_of(guard: Guard, values: FrameValues, code: CodeType) -> ChangeFact:
    """`before` is what the guard expects, `now` what is found; both as short as a label."""
    expression = in_users_words(", ".join(source.expression() for source in guard.sources), code)
    found = _read(guard.sources[0], values) if guard.sources else None
    if isinstance(guard.predicate, WorldIs):
        name, is_new = guard.predicate.changed()
        return ChangeFact(name or "a name of a library", "other", NOT_THERE if is_new else "", "")
    cause = _cause(guard, found, values)
    state = cause in ("grad-mode", "state")
    before = expected_value(guard)
    if before in OBJECTS:
        return ChangeFact(expression, cause, before, OBJECTS[1 - OBJECTS.index(before)])
    return ChangeFact(
        "grad mode" if cause == "grad-mode" else expression or "torch's state",
        cause,
        before,
        expected_value(Guard((), GlobalStateIs.now())) if state else _found_value(guard, found),
    )


def _found_value(guard: Guard, found: Any) -> str:
    """In the words of what was expected: of a dict's keys and a list's items how many there are."""
    if isinstance(guard.predicate, DictionaryKeysAre) and _is_a(found, dict):
        return _keys(dict.__len__(found))
    if isinstance(guard.predicate, LengthIs) and _is_a(found, (list, tuple)):
        return LengthIs.items(len(found))
    return describe_value(found)


def _keys(count: int) -> str:
    return f"{count} {'key' if count == 1 else 'keys'}" if count else EMPTY


def expected_value(guard: Guard) -> str:
    """What a guard takes its place to be, as a label says it: `f32[2, 5]`, `6`, `None`."""
    predicate = guard.predicate
    match predicate:
        case TensorMatches():
            return _tensor_text(predicate)
        case Equals():
            return short_repr(_without_numpy(predicate.value))
        case TypeIs():
            return "None" if predicate.type is types.NoneType else predicate.type.__name__
        case TruthIs():
            return "true" if predicate.truth else "false"
        case LengthIs():
            return LengthIs.items(predicate.length)
        case DictionaryKeysAre():
            return _keys(len(predicate.keys))
        case GlobalStateIs():
            return ", ".join(["on" if predicate.grad_mode else "off", *predicate.autocast_words()])
        case IdentityIs() if predicate.target() is None:
            return "None"
        case IsSameObject():
            return ONE_OBJECT
        case NotSameObject() | NoneIsAnother():
            return SEVERAL_OBJECTS
        case _:
            return ""


def describe_value(value: Any) -> str:
    value = _without_numpy(value)
    if _is_a(value, torch.Tensor):
        return type_of(value)
    if value is None or _is_a(value, (bool, int, float, str, tuple)):
        return short_repr(value)
    return type(value).__name__


def _without_numpy(value: Any) -> Any:
    """Of a number of NumPy's own types the number."""
    numpy = sys.modules.get("numpy")
    return value.item() if numpy is not None and _is_a(value, numpy.generic) else value


def _cause(guard: Guard, found: Any, values: FrameValues) -> Cause:
    predicate = guard.predicate
    if isinstance(predicate, GlobalStateIs):
        return "grad-mode" if predicate.grad_mode != torch.is_grad_enabled() else "state"
    if _is_none(predicate) != (found is None) and isinstance(predicate, (TensorMatches, Equals, TypeIs, IdentityIs)):
        return "none"
    if isinstance(predicate, TensorMatches):
        return _tensor_cause(predicate, found)
    if isinstance(predicate, Equals):
        if not _is_a(found, (int, float)) or _is_a(found, bool):
            return "value" if _is_a(found, type(predicate.value)) else "type"
        return "attribute" if _is_of_module(guard.sources[0], values) else "number"
    if isinstance(predicate, (LengthIs, DictionaryKeysAre)):  # that a loop's iterator has one item more says where it is
        return "number" if isinstance(guard.sources[0], UpcomingSource) else "length"
    return "type" if isinstance(predicate, TypeIs) else "object" if isinstance(predicate, IdentityIs) else "other"


def _tensor_cause(predicate: TensorMatches, found: Any) -> Cause:
    if not _is_a(found, torch.Tensor) or type(found) is not predicate.type:
        return "type"
    if found.dtype != predicate.dtype or found.device != predicate.device:
        return "dtype"
    fits = len(found.shape) == len(predicate.sizes) and all(
        expected is None or expected == size for expected, size in zip(predicate.sizes, found.shape, strict=True)
    )
    if not fits:
        return "size"
    if found.requires_grad != predicate.requires_grad:
        return "requires-grad"
    same_kind = predicate.dispatch_keys == TensorMatches.of(found).dispatch_keys
    return "layout" if same_kind else "other"  # an inference tensor, a conjugate view


def _is_none(predicate: Any) -> bool:
    if isinstance(predicate, Equals):
        return predicate.value is None
    return isinstance(predicate, TypeIs) and predicate.type is types.NoneType


def _is_of_module(source: Source, values: FrameValues) -> bool:
    """An attribute of an `nn.Module`: a count of calls, mostly."""
    if not isinstance(source, (AttributeSource, DictionaryAttributeSource)):
        return False
    return _is_a(_read(source.base, values), torch.nn.Module)


def _is_a(found: Any, kinds: type | tuple[type, ...]) -> bool:
    """By its type alone: `isinstance` asks the program's objects for their `__class__`, which can be its own code."""
    return issubclass(type(found), kinds)


def _tensor_text(predicate: TensorMatches) -> str:
    kind = type_of(torch.empty((), dtype=predicate.dtype, device="meta")).partition("[")[0]
    return f"{kind}[{', '.join('any' if size is None else str(size) for size in predicate.sizes)}]"


def _read(source: Source, values: FrameValues) -> Any:
    try:
        return source.read(values)
    except Exception:
        return None
