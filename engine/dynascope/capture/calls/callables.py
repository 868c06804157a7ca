"""Functions as values: partial, bound methods, the functions of `operator`."""

from __future__ import annotations

import functools
import operator
import types
import typing
from typing import TYPE_CHECKING, Any

from dynascope.capture.calls.arguments import Arguments, Keywords
from dynascope.capture.calls.registry import meaning
from dynascope.capture.protocols import items, operators
from dynascope.capture.values import (
    NONE,
    CellValue,
    MethodValue,
    PartialValue,
    Value,
    boolean,
)

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine


@meaning(functools.partial)
def partial_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    function = machine.realize(arguments[0])
    if isinstance(function, PartialValue):
        return PartialValue(function.function, (*function.arguments, *arguments[1:]), {**function.keywords, **keywords})
    return PartialValue(function, tuple(arguments[1:]), dict(keywords))


@meaning(types.MethodType)
def method_type(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    return MethodValue(machine.realize(arguments[0]), machine.realize(arguments[1]))


@meaning(types.CellType)
def cell_type(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    return CellValue(arguments[0] if arguments else None, "cell")


@meaning(typing.cast)
def cast_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    return arguments[1]


def _operator_function(function: Any, apply: Any) -> None:
    @meaning(function)
    def run(machine: Machine, arguments: Arguments, keywords: Keywords) -> Any:
        return apply(machine, *[machine.realize(each) for each in arguments])


for _symbol, _op in {**operators.OPERATORS, **operators.COMPARISONS}.items():
    _operator_function(_op.function, lambda machine, left, right, _op=_op: operators.apply(machine, _op, left, right))
for _op in operators.UNARY.values():
    _operator_function(_op.function, lambda machine, value, _op=_op: operators.unary(machine, _op, value))
_operator_function(operator.getitem, items.get)
_operator_function(operator.setitem, lambda machine, *parts: items.set(machine, *parts) or NONE)
_operator_function(operator.delitem, lambda machine, *parts: items.delete(machine, *parts) or NONE)
_operator_function(
    operator.contains, lambda machine, container, item: boolean(items.contains(machine, container, item))
)
_operator_function(operator.is_, lambda machine, left, right: boolean(operators.is_same(machine, left, right)))
_operator_function(operator.is_not, lambda machine, left, right: boolean(not operators.is_same(machine, left, right)))
