"""Python numbers that vary from call to call, as symbols that torch's C++ carries along.

    y = x * scale          scale: VaryingFloat  ->  aten.mul.Tensor(x, scale)   the step holds a `Number`
    torch.arange(count)    count: VaryingInt    ->  DifferentiationRefused(VaryingNumberNeeded)

torch accepts any object as the node of a SymInt or SymFloat. Ours knows no value: asking for it is the refusal, so that the
caller compiles once for the value at hand. Arithmetic among numbers is recorded as steps of its own.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, NoReturn

import torch

from dynascope.grad.reasons import DifferentiationRefused, VaryingNumberNeeded
from dynascope.grad.tape import Number, Tape


class NumberNode:
    """What torch's SymNode is to it, reduced to the questions that have an answer without the value."""

    def __init__(self, number: Number, tape: Tape) -> None:
        self.number = number
        self.tape = tape

    def is_int(self) -> bool:
        return isinstance(self.number.example, int)

    def is_float(self) -> bool:
        return isinstance(self.number.example, float)

    def is_bool(self) -> bool:
        return False

    def is_constant(self) -> bool:
        return False

    def is_nested_int(self) -> bool:
        return False

    def is_symbolic(self) -> bool:
        return True

    def maybe_as_int(self) -> None:
        return None

    def _graph_repr(self) -> str:
        return self.number.name or "number"

    str = _graph_repr

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise DifferentiationRefused(VaryingNumberNeeded(self.number.name or "a number"), self.number.name)


def symbol(number: Number, tape: Tape) -> Any:
    kind = VaryingInt if isinstance(number.example, int) else VaryingFloat
    return kind(NumberNode(number, tape))


def _binary(function: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    def apply(self: Any, other: Any) -> Any:
        if isinstance(other, torch.Tensor):
            return NotImplemented
        return _record(self, function, (self, other))

    return apply


def _reflected(function: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    def apply(self: Any, other: Any) -> Any:
        if isinstance(other, torch.Tensor):
            return NotImplemented
        return _record(self, function, (other, self))

    return apply


def _unary(function: Callable[..., Any]) -> Callable[[Any], Any]:
    return lambda self: _record(self, function, (self,))


def _record(owner: Any, function: Callable[..., Any], operands: tuple[Any, ...]) -> Any:
    tape = owner.node.tape
    numbers = tuple(number_of(operand) for operand in operands)
    example = function(*(n.example if isinstance(n, Number) else n for n in numbers))
    return symbol(tape.write_number(function, numbers, example), tape)


def number_of(operand: Any) -> Any:
    """The recorded number behind a symbol; other operands are themselves."""
    if isinstance(operand, (torch.SymInt, torch.SymFloat)) and isinstance(operand.node, NumberNode):
        return operand.node.number
    return operand


def _arithmetic() -> dict[str, Any]:
    methods: dict[str, Any] = {}
    for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow"):
        function = getattr(operator, name)
        methods[f"__{name}__"] = _binary(function)
        methods[f"__r{name}__"] = _reflected(function)
    methods["__neg__"] = _unary(operator.neg)
    methods["__abs__"] = _unary(operator.abs)
    return methods


VaryingFloat = type("VaryingFloat", (torch.SymFloat,), _arithmetic())
VaryingInt = type("VaryingInt", (torch.SymInt,), _arithmetic())
