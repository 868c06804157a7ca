"""Arguments of torch's operations: as the graph holds them, and as the run on meta tensors gets them.

    to_operand(machine, [x, 2])     ([node of x, 2], [meta tensor of x, 2])
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch

from dynascope.capture import numpy_numbers
from dynascope.capture.calls import late_numbers
from dynascope.capture.distributed_values import DistributedValue
from dynascope.capture.protocols.overriding import check_elements
from dynascope.capture.reasons import ForeignValue
from dynascope.capture.signals import Break
from dynascope.capture.values import (
    ArrayValue,
    ConstantValue,
    DictValue,
    ListValue,
    SetValue,
    SliceValue,
    SymbolicNumber,
    TensorValue,
    TupleValue,
    Value,
)

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine

PYTHONS_TYPES = {int: torch.int64, float: torch.float64, bool: torch.bool, complex: torch.complex128}
"""What `dtype=int` means."""
GRAPH_CONSTANTS = (int, float, bool, complex, str, type(None), type(...), torch.dtype, torch.device, torch.layout)
GRAPH_CONSTANTS += (torch.memory_format,)
OF_PLACES = (torch.bool, torch.int64, torch.int32)


def to_operand(machine: Machine, value: Value) -> tuple[Any, Any]:
    """The argument as the graph holds it, and as the meta run gets it."""
    value = machine.realize(value)
    kind = type(value)
    if kind is SymbolicNumber:
        return value.node, value.example
    if kind is TensorValue:
        return value.node, value.example
    if kind is DistributedValue:
        return value.tensor.node, value.tensor.example
    if kind is ArrayValue and value.is_number:
        found = late_numbers.number_of_array(machine, value)
        if found is not None:
            return to_operand(machine, found)
    if kind is ConstantValue:
        if value.value.__class__ is type and value.value in PYTHONS_TYPES:
            return PYTHONS_TYPES[value.value], PYTHONS_TYPES[value.value]
        if type(value.value) in numpy_numbers.TYPES:
            return value.value.item(), value.value.item()
        if not isinstance(value.value, GRAPH_CONSTANTS) and not is_constant_sequence(value.value):
            raise Break(ForeignValue(type(value.value).__name__, machine.expression()))
        return as_written(value.value), value.value
    if kind in (TupleValue, ListValue):
        pairs = [to_operand(machine, item) for item in value.items]
        make = list if kind is ListValue else tuple
        return make(pair[0] for pair in pairs), make(pair[1] for pair in pairs)
    if kind is SliceValue:
        pairs = [to_operand(machine, part) for part in value.parts]
        return slice(*(pair[0] for pair in pairs)), slice(*(pair[1] for pair in pairs))
    if kind is DictValue and value.cls is dict and all(isinstance(key, GRAPH_CONSTANTS) for key in value.items):
        pairs = {key: to_operand(machine, item) for key, (_, item) in value.items.items()}
        return {key: pair[0] for key, pair in pairs.items()}, {key: pair[1] for key, pair in pairs.items()}
    if kind is SetValue:
        raise Break(ForeignValue("set", machine.expression()))
    check_elements(machine, value)
    raise Break(ForeignValue(value.python_type.__name__, machine.expression()))


class ComplexNumber(complex):
    """One that the code of a graph gives back as it is: Python's own text of it is a sum, of which a zero has no sign, and an infinity no
    name."""

    def __repr__(self) -> str:
        return f"complex({self.real!r}, {self.imag!r})"


def as_written(value: Any) -> Any:
    if isinstance(value, (tuple, list)) and type(value) in (tuple, list):
        return type(value)(map(as_written, value))
    return ComplexNumber(value) if type(value) is complex else value


def is_constant_sequence(value: Any) -> bool:
    return isinstance(value, (tuple, list, range)) and all(isinstance(item, GRAPH_CONSTANTS) for item in value)


def places_in(machine: Machine, key: Value) -> Value:
    """A tensor's subscript with the tensors that torch makes of NumPy's arrays of places and masks in it."""
    key = machine.realize(key)
    if isinstance(key, TupleValue) and key.cls is tuple:
        return TupleValue(tuple(places_in(machine, part) for part in key.items))
    is_places = isinstance(key, ArrayValue) and not key.is_number and key.turned is None and key.tensor.example.dim() > 0
    return key.tensor if is_places and key.tensor.example.dtype in OF_PLACES else key


def fixed(machine: Machine, value: Value) -> Value:
    """The value with every number in it that varies fixed, however deep."""
    value = machine.known(value)
    if isinstance(value, ListValue):
        return ListValue([fixed(machine, item) for item in value.items])
    if isinstance(value, TupleValue):
        return TupleValue(tuple(fixed(machine, item) for item in value.items), value.cls)
    return value


def numbers_of_size(value: Value) -> list[Value]:
    """A torch.Size as its numbers, each an argument: in a graph it would be a plain tuple, which `new` takes for contents."""
    if isinstance(value, TupleValue) and value.cls is torch.Size:
        return list(value.items)
    if isinstance(value, ConstantValue) and isinstance(value.value, torch.Size):
        return [ConstantValue(size) for size in value.value]
    return [value]


def tensors_in(values: Any) -> Iterator[TensorValue]:
    for value in values:
        if isinstance(value, TensorValue):
            yield value
        elif isinstance(value, DistributedValue):
            yield value.tensor
        elif isinstance(value, (ListValue, TupleValue)):
            yield from tensors_in(item.realize() if hasattr(item, "realize") else item for item in value.items)
        elif isinstance(value, SliceValue):
            yield from tensors_in(value.parts)
