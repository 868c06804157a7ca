"""`bool(x)`: what a branch asks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynascope.capture.calls.pure import compute
from dynascope.capture.protocols.classes import MISSING, lookup, member
from dynascope.capture.reasons import DataDependentBranch
from dynascope.capture.signals import Break
from dynascope.capture.values import (
    ConstantValue,
    DictValue,
    DictViewValue,
    InstanceValue,
    ListValue,
    SetValue,
    TensorValue,
    TupleValue,
    Value,
)

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine


def truth(machine: Machine, value: Value) -> bool:
    """Known now, or a break: the tensor's value decides."""
    value = machine.known(value)
    if isinstance(value, ConstantValue):
        return compute(machine, bool, (value.value,)).value
    if isinstance(value, TensorValue):
        raise Break(DataDependentBranch(machine.expression()))
    if isinstance(value, (ListValue, TupleValue, DictValue, SetValue)):
        return len(value.items) > 0
    if isinstance(value, DictViewValue):
        return len(value.dictionary.items) > 0
    if isinstance(value, InstanceValue):
        return instance_truth(machine, value)
    return True


def instance_truth(machine: Machine, value: InstanceValue) -> bool:
    for name in ("__bool__", "__len__"):
        if lookup(value.cls, name) is not MISSING:
            answer = machine.call_now(member(machine, value.cls, name, value), [value])
            return truth(machine, answer)
    return True
