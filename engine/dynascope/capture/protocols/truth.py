"""`bool(x)`: what a branch asks."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from dynascope.capture.calls import known_tensors
from dynascope.capture.calls.pure import compute
from dynascope.capture.clocks import clock_among
from dynascope.capture.protocols import lists
from dynascope.capture.protocols.attributes import special
from dynascope.capture.protocols.classes import MISSING, has_own_method, lookup
from dynascope.capture.reasons import TIME_DECIDES, DataDependentBranch, ForeignCall, ProgramRaises
from dynascope.capture.signals import Break
from dynascope.capture.values import (
    ArrayValue,
    ConditionValue,
    ConstantValue,
    DictValue,
    DictViewValue,
    InstanceValue,
    ListValue,
    SetValue,
    SymbolicNumber,
    TensorValue,
    TupleValue,
    Value,
)

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine


def truth(machine: Machine, value: Value) -> bool:
    """Known now, or a break: the tensor's value decides."""
    value = machine.realize(value)
    if isinstance(value, SymbolicNumber):
        if isinstance(value, ConditionValue):
            if clock := clock_among(machine.graph.numbers, value.relation):
                raise Break(ForeignCall(clock, TIME_DECIDES))
            raise Break(DataDependentBranch(machine.expression(), machine.place()))
        return bool(value.size)
    if isinstance(value, ConstantValue) and not has_own_method(value, "__bool__", "__len__"):
        return compute(machine, bool, (value.value,)).value
    if isinstance(value, (ArrayValue, TensorValue)):
        tensor = value.tensor if isinstance(value, ArrayValue) else value
        if (known := known_tensors.known_number(machine, tensor, fixes=True)) is not None:
            return bool(known.value)
        raise Break(DataDependentBranch(machine.expression(), machine.place()))
    if isinstance(value, ListValue):
        return lists.is_filled(machine, value)
    if isinstance(value, (TupleValue, DictValue, SetValue)):
        return len(value.items) > 0
    if isinstance(value, DictViewValue):
        return len(value.dictionary.items) > 0
    if isinstance(value, (InstanceValue, ConstantValue)):
        return instance_truth(machine, value)
    return True


def instance_truth(machine: Machine, value: InstanceValue | ConstantValue) -> bool:
    if lookup(value.python_type, "__bool__") is not MISSING:
        answer = machine.known(machine.call_now(special(machine, value, "__bool__"), []))
        if not (isinstance(answer, ConstantValue) and type(answer.value) is bool):
            raise Break(ProgramRaises("TypeError", machine.expression()))
        return answer.value
    if lookup(value.python_type, "__len__") is not MISSING:
        length = length_of(machine, value)
        return length.size > 0 if isinstance(length, SymbolicNumber) else length.value > 0
    return True


def length_of(machine: Machine, value: Value) -> ConstantValue | SymbolicNumber:
    """What `__len__` gives, which must be a length. That of a tensor that it holds may vary."""
    answer = machine.realize(machine.call_now(special(machine, value, "__len__"), []))
    varies = isinstance(answer, SymbolicNumber) and answer.python_type is int and not machine.sizes.is_late(answer)
    if varies and answer.size >= 0:
        return answer
    answer = machine.known(answer)
    if not (
        isinstance(answer, ConstantValue) and type(answer.value) in (int, bool) and 0 <= answer.value <= sys.maxsize
    ):
        raise Break(ProgramRaises("TypeError", machine.expression()))
    return ConstantValue(int(answer.value))
