"""What an operation of an expression means, by its name: Python's own functions, and calls that programs make.

    FUNCTIONS["//"](7, 2)                                    3
    named(math.fsum, (([HOLE, HOLE],), {}), float)           "math_fsum_5ab0c1": the name of what computes it of two numbers
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from dynascope.sizes.calls import Call, Template

INFIX = {"+", "-", "*", "/", "//", "%", "**", "<<", ">>", "&", "|", "^"}

MATHEMATICS = (
    *(math.sqrt, math.exp, math.expm1, math.log, math.log2, math.log10, math.log1p, math.pow, math.hypot, math.fabs),
    *(math.sin, math.cos, math.tan, math.asin, math.acos, math.atan, math.atan2, math.degrees, math.radians),
    *(
        math.sinh,
        math.cosh,
        math.tanh,
        math.asinh,
        math.acosh,
        math.atanh,
        math.erf,
        math.erfc,
        math.gamma,
        math.lgamma,
    ),
    *(
        math.floor,
        math.ceil,
        math.trunc,
        math.fmod,
        math.remainder,
        math.copysign,
        math.isnan,
        math.isinf,
        math.isfinite,
    ),
    *(math.gcd, math.lcm, math.isqrt, math.comb, math.perm, math.factorial),
)


def summed(start: float, *numbers: float) -> float:
    """Python's own sum, which since CPython 3.12 makes up for what adding floats rounds off: no row of additions."""
    return sum(numbers, start)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": operator.pow,
    "<<": operator.lshift,
    ">>": operator.rshift,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "blocks": lambda count, block: -(-count // block),
    "share": lambda multiple, part: multiple // part,
    "neg": operator.neg,
    "abs": abs,
    "min": min,
    "max": max,
    "int": int,
    "float": float,
    "bool": bool,
    "round": round,
    "sum": summed,
    **{f"math.{function.__name__}": function for function in MATHEMATICS},
}
"""What an operation means: Python's own function, so that an evaluated expression is what the program would have computed."""

NAMES: dict[Any, str] = {function: name for name, function in FUNCTIONS.items()} | {pow: "**"}


def power_in_graphs(base: Any) -> Callable[..., Any]:
    """What a graph calls: `operator.pow(-1, n)` is written there as `-1 ** n`, which is another number."""
    return pow if isinstance(base, (int, float)) and math.copysign(1, base) < 0 else operator.pow


def named(function: Callable[..., Any], template: Template, kind: type, at: int | None = None, count: int | None = None) -> str:
    """The name in `FUNCTIONS` of a call: equal ones share it."""
    call = Call(function, template, kind, at, count)
    symbol = NAMES.get(function, "")
    call.symbol = symbol if symbol in INFIX else ""
    known = FUNCTIONS.setdefault(call.name, call)
    NAMES[known] = call.name
    return call.name
