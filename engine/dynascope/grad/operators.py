"""What an operator does to memory, read off its schema once.

traits(aten.select.int)   -> VIEW
traits(aten.add_.Tensor)  -> MUTATING, writes (0,), functional form aten.add.Tensor
traits(aten.detach)       -> SAME: the very same elements
"""

from __future__ import annotations

import functools
import re
from typing import Any, Literal

import torch

from dynascope.dataclass import dataclass
from dynascope.grad.tape import has_sizes
from dynascope.sizes import Size, fix

aten = torch.ops.aten
Kind = Literal["plain", "view", "same", "mutating", "composite", "reading", "about sizes"]

SAME = {aten.detach.default, aten.alias.default, aten.lift_fresh.default, aten.lift.default}
UNDECLARED_VIEWS = {aten.unsafe_split.Tensor, aten.unsafe_split_with_sizes.default}
"""Their results are views of the operand, though the schema says that they are new."""
ABOUT_SIZES = {aten.is_same_size.default, aten._has_same_storage_numel.default}
"""What forward-mode differentiation asks, and no graph holds."""
UNTAGGED_READING = {aten.is_nonzero.default}
"""They say what a tensor holds, though no tag says so."""

FACTORY = {"dtype", "layout", "device", "pin_memory"}
"""What a function that makes a tensor is told of it, and one that fills `out` finds there."""
_IN_PLACE = re.compile("__i([a-z]+)_$")
FUNCTIONAL_FORMS: dict[Any, Any] = {
    aten.bernoulli_.float: aten.bernoulli.p,
    aten.bernoulli_.Tensor: aten.bernoulli.Tensor,
    aten.normal_.default: aten.normal_functional.default,
    aten.detach_.default: aten.alias.default,
}
"""Where the functional form is not the operator's name without its underscore."""


@dataclass(frozen=True, slots=True)
class Traits:
    """`writes` are the names of mutated arguments. `functional`, where there is one, computes their new values, after
    the results that are tensors of their own (`rrelu_with_noise` has one of each).
    """

    kind: Kind
    writes: tuple[str, ...] = ()
    functional: Any = None
    is_out: bool = False


@functools.cache
def traits(operator: Any) -> Traits:
    if operator in SAME:
        return Traits("same")
    if operator in ABOUT_SIZES:
        return Traits("about sizes")
    if torch.Tag.data_dependent_output in operator.tags or operator in UNTAGGED_READING:
        return Traits("reading")
    schema = operator._schema
    writes = tuple(a.name for a in schema.arguments if a.alias_info is not None and a.alias_info.is_write)
    if writes:
        is_out = any(a.is_out for a in schema.arguments)
        return Traits("mutating", writes, _functional_form(operator, is_out), is_out)
    if torch._C._dispatch_has_kernel_for_dispatch_key(operator.name(), "CompositeImplicitAutograd"):
        return Traits("composite")
    return Traits("view" if operator.is_view or operator in UNDECLARED_VIEWS else "plain")


@functools.cache
def is_view(operator: Any) -> bool:
    """Whether it gives one tensor that lies in its operand's memory."""
    if not isinstance(operator, torch._ops.OpOverload) or not operator.is_view:
        return False
    return [str(each.type) for each in operator._schema.returns] == ["Tensor"]


@functools.cache
def dimension_places(operator: Any) -> tuple[int | str, ...]:
    """Where it takes a dimension: an int that is no size, by the schema's types, and that its name calls one. By place and name."""
    places: list[int | str] = []
    for place, argument in enumerate(operator._schema.arguments):
        kind, name = str(argument.real_type), argument.name
        is_named = "dim" in name or "axis" in name or name in ("source", "destination")
        if "SymInt" not in kind and "int" in kind and is_named and "size" not in name:
            places += [place, name]
    return tuple(places)


def has_no_such_dimension(operator: Any, arguments: Any) -> bool:
    """Whether the first operand has not the dimension that is given: not every meta kernel looks (`_softmax`)."""
    if not arguments or not isinstance(arguments[0], torch.Tensor):
        return False
    rank = max(arguments[0].dim(), 1)
    given = (arguments[at] for at in _places_of_one_dimension(operator) if at < len(arguments))
    return any(type(each) is int and not -rank <= each < rank for each in given)


@functools.cache
def _places_of_one_dimension(operator: Any) -> tuple[int, ...]:
    """Where the schema has a dimension of the first operand; nowhere where that is a gradient, of what had the dimension."""
    arguments = operator._schema.arguments
    if arguments[0].name != "self":
        return ()
    return tuple(at for at, each in enumerate(arguments) if each.name == "dim" and str(each.real_type) == "int")


def with_known_dimensions(operator: Any, arguments: Any, keywords: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """A dimension says what is computed, a size only how much of it: numbers that vary are what they are now there, and that is
    relied on."""
    for place in dimension_places(operator):
        if isinstance(place, str):
            if has_sizes(keywords.get(place)):
                keywords = keywords | {place: _fixed(keywords[place])}
        elif place < len(arguments) and has_sizes(arguments[place]):
            arguments = (*arguments[:place], _fixed(arguments[place]), *arguments[place + 1 :])
    return arguments, keywords


def _fixed(data: Any) -> Any:
    return fix(data) if isinstance(data, Size) else [fix(each) if isinstance(each, Size) else each for each in data]


def _functional_form(operator: Any, is_out: bool) -> Any:
    if operator in FUNCTIONAL_FORMS:
        return FUNCTIONAL_FORMS[operator]
    name = operator._schema.name.removeprefix("aten::")
    if name == operator._schema.name:
        return None
    wanted = {_kind_of(a) for a in operator._schema.arguments if not a.is_out}
    same_name = name if is_out else _IN_PLACE.sub(r"__\1__", name.removesuffix("_"))
    found: list[tuple[int, Any]] = []
    for functional in (same_name, f"{same_name}_functional", f"{name}_functional"):
        packet = getattr(aten, functional, None)
        for overload in packet.overloads() if packet is not None else ():
            candidate = getattr(packet, overload)
            kinds = {_kind_of(a) for a in candidate._schema.arguments}
            more = {each for each, _ in kinds - wanted}
            if wanted <= kinds and more <= (FACTORY if is_out else set()) and not candidate._schema.is_mutable:
                found.append((len(more), candidate))
    return min(found, key=lambda each: each[0])[1] if found else None


def _kind_of(argument: Any) -> tuple[str, str]:
    return argument.name, str(argument.type)
