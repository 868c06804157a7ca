"""An expression as calls of Python's own functions, for graphs of any kind.

build(2*n + 1, leaf, call)  ->  call(operator.add, (call(operator.mul, (2, leaf(n))), 1))
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from dynascope.sizes.expression import Expression, Operation, Polynomial, Root
from dynascope.sizes.functions import FUNCTIONS, power_in_graphs

Call = Callable[[Callable[..., Any], tuple[Any, ...]], Any]


def build(expression: Expression | int | float, leaf: Callable[[Root], Any], call: Call) -> Any:
    """What `call` makes of the whole. `leaf` gives what stands for a root; constants stand for themselves."""
    if isinstance(expression, Root):
        return leaf(expression)
    if isinstance(expression, Operation):
        arguments = tuple(build(argument, leaf, call) for argument in expression.arguments)
        return call(power_in_graphs(arguments[0]) if expression.name == "**" else FUNCTIONS[expression.name], arguments)
    if not isinstance(expression, Polynomial):
        return expression
    total: Any = None
    for monomial, coefficient in expression.terms:
        product: Any = coefficient if coefficient != 1 or not monomial else None
        for atom, exponent in monomial:
            factor = build(atom, leaf, call)
            factor = factor if exponent == 1 else call(operator.pow, (factor, exponent))
            product = factor if product is None else call(operator.mul, (product, factor))
        total = product if total is None else call(operator.add, (total, product))
    return total


def told_apart(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """A key for calls with these: 2 is not 2.0, and 0.0 not -0.0."""
    return tuple([(type(each), repr(each)) if isinstance(each, (int, float)) else each for each in arguments])
