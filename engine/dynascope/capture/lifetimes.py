"""Which objects a function must not let go of before its end, though it does not read them any more.

    folder = tempfile.TemporaryDirectory()      a local that nothing reads below
    path = folder.name
    print(path)                                 a break: what is compiled from here on is another frame
    torch.save(x, path + "/x.pt")               here the folder must still be there

Python keeps what a local holds until the function ends. Finalisers and weak references can see when that is, so such objects go with
the frame from break to break. Tensors do not: nobody notices their end but the allocator, who is glad of it.
"""

from __future__ import annotations

import types
import weakref
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from dynascope.capture.exits import FrameState
from dynascope.capture.values import CellValue, ConstantValue, InstanceValue, TensorValue, Value
from dynascope.frame.liveness import Liveness
from dynascope.frame.resume import resume_origin
from dynascope.frame.shape import CodeShape
from dynascope.guards.source import LocalSource

if TYPE_CHECKING:
    from dynascope.capture.frames import Frame

PLAIN = (int, float, complex, str, bytes, type(None), type, torch.dtype, torch.device, torch.Tensor, range, slice)
PLAIN += (types.ModuleType, types.CodeType, types.FunctionType, types.BuiltinFunctionType, types.MethodType)
CONTAINERS = (list, tuple, dict, set, frozenset)


def end_is_seen(value: Value) -> bool:
    """Whether the end of an object that a local holds could be noticed. It is there already: nothing has to be made to keep it."""
    if value.source is None or isinstance(value, (ConstantValue, TensorValue)):
        return False
    return _can_be_noticed(getattr(value, "object", None))


def ends_here(frames: Sequence[Frame], name: str) -> bool:
    """Whether `del name`, or another value for the name, runs a finaliser of the program's: of an object that was made before a break, and
    that only this local is known to hold. What a function was given its caller holds too."""
    frame, value = frames[-1], frames[-1].slots.get(name)
    if value is None or len(frames) > 1 or not isinstance(value.source, LocalSource):
        return False
    origin = resume_origin(frame.code)
    if origin is None or name not in origin.root.co_varnames or not _has_finaliser(getattr(value, "object", None)):
        return False
    return sum(_is_one(each, value) for each in (*frame.slots.values(), *frame.stack)) == 1


def _is_one(one: Value, other: Value) -> bool:
    """Two names of one object may be places that nobody has read yet."""
    return one is other or getattr(one, "object", None) is other.object


def _has_finaliser(thing: Any) -> bool:
    """What a weak reference calls is asked of the object at hand. Modules have others that hold them."""
    if any("__del__" in vars(base) for base in type(thing).__mro__):
        return True
    if issubclass(type(thing), (torch.nn.Module, *PLAIN)):
        return False
    return any(each.__callback__ is not None for each in weakref.getweakrefs(thing))


def _can_be_noticed(thing: Any) -> bool:
    """By its type alone: `isinstance` asks the program's objects for their `__class__`, `in` a metaclass for its `__eq__`."""
    if not any(type(thing) is container for container in CONTAINERS):
        return not issubclass(type(thing), PLAIN)
    held = thing.values() if type(thing) is dict else thing
    return any(not issubclass(type(each), (*PLAIN, *CONTAINERS)) for each in held)


def without_the_unread(states: tuple[FrameState, ...]) -> tuple[FrameState, ...]:
    """Frames without the locals that nothing reads any more: they need not be made. Those stay that must not end before the frame
    does: what is there already, or what the step is given, which may take a weak reference to it."""
    result = []
    given = {id(value) for state in states for value in state.stack if isinstance(value, InstanceValue)}
    for state in states:
        live = Liveness(state.instructions, CodeShape.of(state.code)).before(state.instruction)
        first = state.code.co_varnames[:1] if "__class__" in state.code.co_freevars else ()
        slots = {
            name: value
            for name, value in state.slots.items()
            if name in live or name in first or isinstance(value, CellValue)
        }
        kept = {
            name: value
            for name, value in state.slots.items()
            if name not in slots and (id(value) in given or end_is_seen(value))
        }
        result.append(replace(state, slots={**slots, **kept}, kept=frozenset(kept)))
    return tuple(result)
