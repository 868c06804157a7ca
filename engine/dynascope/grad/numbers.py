"""Python floats that vary from call to call, as symbols that torch's C++ carries along.

    y = x * scale          scale: VaryingFloat  ->  aten.mul.Tensor(x, scale)   the step holds the `Size` of scale
    torch.full((2,), n)    n: VaryingInt        ->  aten.full([2], n)
    torch.arange(count)    count: VaryingInt    ->  DifferentiationRefused(VaryingNumberNeeded)

torch accepts any object as the node of a SymInt or SymFloat. Ours knows no value: asking for it is the refusal, so that the
caller looks at several values (`sizes.worlds`), or compiles for the value at hand. Arithmetic is the sizes' own.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import torch

from dynascope.grad.reasons import DifferentiationRefused, VaryingNumberNeeded
from dynascope.grad.tape import PLAIN, names_of
from dynascope.sizes import Size


class NumberNode:
    """What torch's SymNode is to it, reduced to the questions that have an answer without the value."""

    def __init__(self, size: Size) -> None:
        self.size = size

    def is_int(self) -> bool:
        return self.size.kind is int

    def is_float(self) -> bool:
        return self.size.kind is float

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
        return str(self.size)

    str = _graph_repr

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise DifferentiationRefused(VaryingNumberNeeded(f"{self.size}", names_of([self.size])))


def symbol(size: Size) -> Any:
    return (VaryingInt if size.kind is int else VaryingFloat)(NumberNode(size))


def refuse_symbols(target: Any, data: Any) -> None:
    """Raises `DifferentiationRefused` where nested data holds one: for what is computed with numbers alone."""
    needed = list(_sizes_behind(data))
    if needed:
        raise DifferentiationRefused(VaryingNumberNeeded(target.name().replace("::", "."), names_of(needed)))


def _sizes_behind(data: Any) -> Iterator[Size]:
    """Of the symbols in nested lists, tuples and dictionaries."""
    for item in data:
        if type(item) in PLAIN:
            continue
        if isinstance(item, (list, tuple)):
            if not PLAIN.issuperset(map(type, item)):
                yield from _sizes_behind(item)
        elif isinstance(item, dict):
            yield from _sizes_behind(item.values())
        elif (size := number_of(item)) is not item:
            yield size


def _binary(function: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    def apply(self: Any, other: Any) -> Any:
        return NotImplemented if isinstance(other, torch.Tensor) else _compute(function, self, other)

    return apply


def _reflected(function: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    def apply(self: Any, other: Any) -> Any:
        return NotImplemented if isinstance(other, torch.Tensor) else _compute(function, other, self)

    return apply


def _unary(function: Callable[..., Any]) -> Callable[[Any], Any]:
    return lambda self: _compute(function, self)


def _compute(function: Callable[..., Any], *operands: Any) -> Any:
    result = function(*map(number_of, operands))
    return symbol(result) if isinstance(result, Size) else result


def number_of(operand: Any) -> Any:
    """The size behind a symbol; other operands are themselves."""
    if isinstance(operand, (torch.SymInt, torch.SymFloat)) and isinstance(operand.node, NumberNode):
        return operand.node.size
    return operand


def _arithmetic() -> dict[str, Any]:
    methods: dict[str, Any] = {}
    for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow"):
        function = getattr(operator, name)
        methods[f"__{name}__"] = _binary(function)
        methods[f"__r{name}__"] = _reflected(function)
    methods["__neg__"] = _unary(operator.neg)
    methods["__abs__"] = _unary(operator.abs)
    methods["__round__"] = lambda self, digits=None: _compute(round, self, *([] if digits is None else [digits]))
    return methods


VaryingFloat = type("VaryingFloat", (torch.SymFloat,), _arithmetic())
VaryingInt = type("VaryingInt", (torch.SymInt,), _arithmetic())
