"""Truths that only the run of a graph knows: what `.item()` and `bool` give of a tensor of one element.

    ok = bool((x > 0).all()); return y, ok      item: u0, ne(u0, 0)
    if not ok: raise ValueError             ->  torch._assert_async: the tensor is asked, where it still holds the truth

Such a truth is a comparison of the number in the tensor with 0. A branch that does something on both sides is a break.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING

import torch

from dynascope.capture.calls.late_numbers import number_of, still_held, truth_of
from dynascope.capture.values import ConditionValue, ConstantValue, SymbolicNumber, TensorValue, Value, constant_of
from dynascope.sizes.size import relation_of

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine


def truth_in(machine: Machine, tensor: TensorValue) -> Value | None:
    """What `bool(tensor)` gives; None where it stays a break."""
    found = number_of(machine, tensor)
    is_late = isinstance(found, SymbolicNumber) and not isinstance(found, ConditionValue)
    return truth_of(machine, found) if is_late else found


def negated(machine: Machine, condition: ConditionValue) -> ConditionValue | None:
    """`not` of it. A number that is not less need not be as large: it may be NaN."""
    symbol = {operator.ne: "==", operator.eq: "!="}.get(condition.function)
    numbers = [each.size if isinstance(each, SymbolicNumber) else constant_of(each) for each in condition.operands]
    if symbol is None:
        return None
    function = operator.eq if symbol == "==" else operator.ne
    return ConditionValue(function, condition.operands, relation_of(symbol, *numbers), machine.graph)


def truth_read(machine: Machine, condition: ConditionValue) -> TensorValue | None:
    """The tensor whose one element is this truth, or a number that it asks about, where it still holds it."""
    return still_held(machine, condition.operands[0]) if condition.function is operator.ne and is_about_zero(condition) else None


def is_about_zero(condition: ConditionValue) -> bool:
    number, other = condition.operands
    return type(number) is SymbolicNumber and isinstance(other, ConstantValue) and other.value == 0


def as_operand(machine: Machine, value: Value) -> Value:
    """A truth that was read from a tensor, beside another tensor: the tensor without dimensions, which counts as a bool does."""
    if not isinstance(value, ConditionValue) or not is_about_zero(value) or value.function not in (operator.ne, operator.eq):
        return value
    tensor = still_held(machine, value.operands[0])
    if tensor is None or tensor.example.dim() or tensor.example.dtype is not torch.bool:
        return value
    if value.function is operator.ne:
        return tensor
    from dynascope.capture.calls.tensors import apply_function

    return apply_function(machine, torch.logical_not, [tensor], {})
