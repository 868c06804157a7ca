"""What a tuple does in C when it is compared, joined or repeated, of an object of a subclass that inherits it: as with its items. How many
elements a shape has, too.

    class Irreps(tuple): ...
    Irreps(a) == Irreps(b)      tuple.__eq__(Irreps(a), Irreps(b)): the items, one by one; of another class `NotImplemented`
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from dynascope.capture.calls.arguments import Arguments, Keywords
from dynascope.capture.calls.registry import meaning
from dynascope.capture.expressions import callee
from dynascope.capture.protocols import operators
from dynascope.capture.protocols.contents import contents_of
from dynascope.capture.reasons import ForeignCall, ProgramRaises
from dynascope.capture.signals import Break
from dynascope.capture.values import ConstantValue, SymbolicNumber, TupleValue, Value

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine


def as_tuple(machine: Machine, value: Value) -> Value:
    """Its items as a tuple of no other class, where it is of a class of tuples."""
    value = machine.realize(value)
    if isinstance(value, TupleValue):
        return value if value.cls is tuple else TupleValue(value.items)
    if isinstance(value, ConstantValue) and isinstance(value.value, tuple):
        return TupleValue(tuple(map(ConstantValue, tuple.__iter__(value.value))))
    held = contents_of(machine, value)
    return held if isinstance(held, TupleValue) else value


def _meaning_of(op: operators.Operator, name: str) -> None:
    @meaning(vars(tuple)[name])
    def called(machine: Machine, arguments: Arguments, keywords: Keywords) -> Any:
        if len(arguments) != 2 or keywords:
            raise Break(ProgramRaises("TypeError", machine.expression()))
        one, other = (as_tuple(machine, each) for each in arguments)
        if not isinstance(one, TupleValue):
            raise Break(ProgramRaises("TypeError", machine.expression()))
        is_number = isinstance(other, (ConstantValue, SymbolicNumber)) and hasattr(other.python_type, "__index__")
        if isinstance(other, TupleValue) if name not in REPEATING else is_number:
            return operators.apply(machine, op, one, machine.known(other))
        if name in operators.COMPARING:
            return ConstantValue(NotImplemented)
        raise Break(ForeignCall(callee(machine.expression()) or name))  # who is asked next, and in which words it is refused


@meaning(torch.Size.numel)
def numel(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    if len(arguments) != 1 or keywords:
        raise Break(ProgramRaises("TypeError", machine.expression()))
    sizes = as_tuple(machine, arguments[0])
    assert isinstance(sizes, TupleValue)
    count: Value = ConstantValue(1)
    for size in sizes.items:
        count = machine.finish(operators.binary(machine, "*", count, machine.realize(size)))
    return count


REPEATING = ("__mul__", "__rmul__")

for _operator in operators.COMPARISONS.values():
    _meaning_of(_operator, _operator.method)
for _name, _symbol in {"__add__": "+", "__mul__": "*", "__rmul__": "*"}.items():
    _meaning_of(operators.OPERATORS[_symbol], _name)
