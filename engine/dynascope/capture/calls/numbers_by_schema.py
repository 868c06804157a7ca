"""Tensors without dimensions where an operator takes a number: torch reads it out of them.

    torch.full((2, 3), pad)                 item: u0, full((2, 3), u0)
    x.add_(y, alpha=scale), F.leaky_relu(x, slope)
    F.pad(x, (left, 0))                     item: u0, pad(x, (u0, 0))

Which arguments are numbers stands in the schemas of the operator's overloads. Where one of these takes a tensor at that place, torch
computes with it, and it stays one. Truth values stay too: they say a type (`torch.full` of one is of bool). Operators that are put together
from others, and autograd, look at numbers: there kernels are made once it is one of Python's.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import torch

from dynascope.capture.calls.arguments import argument as told
from dynascope.capture.calls.late_numbers import number_of, read_number
from dynascope.capture.calls.operands import tensors_in
from dynascope.capture.values import (
    ConstantValue,
    ListValue,
    SymbolicNumber,
    TensorValue,
    TupleValue,
    Value,
    constant_of,
)
from dynascope.sizes import roots_of

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine

NUMBERS = (torch.NumberType, torch.FloatType)
SIZED = frozenset({"arange", "range"})
"""Of which the number says how many elements there are."""
OPERATOR_BY_OPERATOR = frozenset({"unflatten"})
"""With a number that only the run knows there are no kernels for what is around it: they are made once it is one of Python's."""


def with_numbers(machine: Machine, name: str, arguments: list[Value], keywords: dict[str, Value]) -> list[Value] | None:
    """The arguments, those by name at the end, with numbers for such tensors; None where there is none, or it stays a break."""
    numbers = number_places(name)
    if not numbers:
        return with_lists(machine, name, arguments, keywords)
    places = (*range(len(arguments)), *keywords)
    values = [machine.realize(each) for each in (*arguments, *keywords.values())]
    leads_gradients = torch.is_grad_enabled() and not name.startswith("new_") and not name.endswith("_like")
    if leads_gradients and any(tensor.example.requires_grad for tensor in tensors_in(values)):
        return None
    asked = [is_number(each) and place in numbers for each, place in zip(values, places, strict=True)]
    if not any(asked):
        return None
    found = [number_of(machine, each) if is_asked else each for each, is_asked in zip(values, asked, strict=True)]
    is_read = all(isinstance(each, SymbolicNumber) for each, is_asked in zip(found, asked, strict=True) if is_asked)
    return found if is_read else None


def with_lists(machine: Machine, name: str, arguments: list[Value], keywords: dict[str, Value]) -> list[Value] | None:
    """The arguments with numbers for the tensors in lists of integers; None where there is none, or it stays a break. A method takes the
    items of its only list as arguments too (`x.repeat(1, t)`)."""
    if 1 in list_places(name) and len(arguments) > 1 and not keywords and not is_list(machine.realize(arguments[1])):
        items = with_items(machine, TupleValue(tuple(arguments[1:])))
        return [arguments[0], *items.items] if items is not None and any(map(is_tensor, map(machine.realize, arguments[1:]))) else None
    found = []
    for place, given in zip((*range(len(arguments)), *keywords), (*arguments, *keywords.values()), strict=True):
        value = machine.realize(given)
        if is_list(value) and any(map(is_tensor, map(machine.realize, value.items))):
            if place not in list_places(name) or (value := with_items(machine, value)) is None:
                return None
            if mirrors(machine, name, arguments, keywords) and len(roots_of(each.size for each in value.items if is_number_read(each))) > 1:
                return None
        found.append(value)
    is_same = all(one is machine.realize(other) for one, other in zip(found, (*arguments, *keywords.values()), strict=True))
    return None if is_same else found


def mirrors(machine: Machine, name: str, arguments: list[Value], keywords: dict[str, Value]) -> bool:
    """Whether it pads with what is there. By several numbers that only the run knows, that runs operator by operator."""
    mode = told(arguments, keywords, 2, "mode", ConstantValue("constant"))
    return name == "pad" and constant_of(machine.realize(mode)) != "constant"


def is_number_read(value: Value) -> bool:
    return isinstance(value, SymbolicNumber)


def is_list(value: Value) -> bool:
    return isinstance(value, (ListValue, TupleValue))


def is_tensor(value: Value) -> bool:
    return isinstance(value, TensorValue)


def with_items(machine: Machine, value: ListValue | TupleValue) -> TupleValue | None:
    """A tensor that is there twice is one number."""
    read: dict[torch.fx.Node, Value | None] = {}
    items = [read_number(machine, each, read) if is_integer(each) else each for each in map(machine.realize, value.items)]
    is_left = None in read.values() or any(map(is_tensor, items))
    return None if is_left else TupleValue(tuple(items))


def is_integer(value: Value) -> bool:
    return is_number(value) and not value.example.dtype.is_floating_point and not value.example.dtype.is_complex


@cache
def list_places(name: str) -> frozenset[int | str]:
    """Positions and names of the arguments that are lists of integers where they are lists."""
    packet = getattr(torch.ops.aten, name, None) if name not in OPERATOR_BY_OPERATOR else None
    if not isinstance(packet, torch._ops.OpOverloadPacket):
        return frozenset()
    lists: set[int | str] = set()
    others: set[int | str] = set()
    for overload in (getattr(packet, overload) for overload in packet.overloads()):
        for at, argument in enumerate(overload._schema.arguments):
            place = {argument.name} if argument.kwarg_only else {at, argument.name}
            if isinstance(argument.type, torch.ListType):
                (lists if isinstance(argument.type.getElementType(), torch.IntType) else others).update(place)
    return frozenset(lists - others)


def is_number(value: Value) -> bool:
    """What torch takes for a number: with dimensions, or where a gradient would be lost, it raises."""
    if not isinstance(value, TensorValue):
        return False
    return not value.example.dim() and not value.example.requires_grad and value.example.dtype is not torch.bool


@cache
def number_places(name: str) -> frozenset[int | str]:
    """Positions and names of the arguments that are numbers in each overload that has them."""
    packet = getattr(torch.ops.aten, name, None) if name not in SIZED else None
    numbers: set[int | str] = set()
    others: set[int | str] = set()
    if not isinstance(packet, torch._ops.OpOverloadPacket):  # a special method is one of the namespace itself
        return frozenset()
    overloads = [getattr(packet, overload) for overload in packet.overloads()]
    for overload in [each for each in overloads if torch._C._dispatch_has_kernel(each.name())]:
        if torch._C._dispatch_has_kernel_for_dispatch_key(overload.name(), "CompositeImplicitAutograd"):
            return frozenset()
        for at, argument in enumerate(overload._schema.arguments):
            place = {argument.name} if argument.kwarg_only else {at, argument.name}
            kind = argument.type.getElementType() if isinstance(argument.type, torch.OptionalType) else argument.type
            (numbers if isinstance(kind, NUMBERS) else others).update(place)
    return frozenset(numbers - others)
