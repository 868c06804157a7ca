"""NumPy's functions of torch's tensors: `np.log(t)` computes with the array of the tensor and gives a tensor.

    np.log(t)            torch.log of t.detach(): a tensor on memory of its own
    np.maximum(t, 1e-9)  the number in the type that NumPy weighs it by
    np.greater(t, 0)     uint8, as torch's `__array_wrap__` makes of bool
    np.stack([t, u])     what joins arrays converts each by itself, and gives an array

A tensor that requires grad, or lies on another device, NumPy refuses in words of torch's: Python runs the call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from dynascope.capture.calls.arguments import Arguments, Keywords
from dynascope.capture.calls.numpy_arrays import foreign, of_tensor, universal
from dynascope.capture.calls.tensors import apply_method
from dynascope.capture.numpy_numbers import IS_THERE, numpy
from dynascope.capture.values import ConstantValue, ListValue, TensorValue, TupleValue, Value

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine


def universal_of_tensors(machine: Machine, function: Any, arguments: Arguments, keywords: Keywords) -> Value:
    if machine.overriding.modes:
        raise foreign(machine, "a function mode is told of the array that NumPy asks for")
    made = universal(machine, function, [with_arrays(machine, each) for each in arguments], keywords).tensor
    if made.example.dtype is torch.bool:
        return apply_method(machine, torch.Tensor.to, [made, ConstantValue(torch.uint8)], {})
    return made


def joins_tensors(machine: Machine, function: Any, arguments: Arguments) -> bool:
    """Whether it is a function that makes one array of a list of tensors, as of arrays."""
    if function not in JOINING or not arguments or machine.overriding.modes:
        return False
    given = machine.realize(arguments[0])
    return isinstance(given, (ListValue, TupleValue)) and any(isinstance(machine.realize(item), TensorValue) for item in given.items)


JOINING: frozenset[Any] = frozenset()
if IS_THERE:
    JOINING = frozenset((numpy.concatenate, numpy.stack, numpy.vstack, numpy.hstack, numpy.dstack, numpy.column_stack))


def with_arrays(machine: Machine, value: Value) -> Value:
    """The operand, with arrays where it is or has tensors."""
    value = machine.realize(value)
    if isinstance(value, ListValue):
        return ListValue([with_arrays(machine, item) for item in value.items])
    if isinstance(value, TupleValue):
        return TupleValue(tuple(with_arrays(machine, item) for item in value.items))
    return of_tensor(machine, value) if isinstance(value, TensorValue) else value
