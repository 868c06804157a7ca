"""Scalar operations to Triton expressions, by table.

    render("exp", torch.float32, ["x0"])                 ->  "libdevice.exp(x0)"
    render("maximum", torch.int64, ["a1", "b2"])         ->  "tl.maximum(a1, b2)"

The choices keep eager's accuracy: Triton's own `exp` and `/` for f32 are approximations several units in the last place
off, libdevice's functions and `div_rn` are what eager's kernels call (`exact`). A division that may be one unit off where eager's
is not (`near`) takes a third of the time. Where every result is rounded to 16 bits anyway (`coarse`), the approximations do.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Literal, get_args

import torch

from dynascope.codegen.triton.dtypes import SIXTEEN_BIT_FLOATS, TEXT
from dynascope.codegen.triton.helpers import HELPERS

Precision = Literal["exact", "near", "coarse"]
PRECISIONS: tuple[Precision, ...] = get_args(Precision)
"""The strictest first."""

_OF_ONE = (
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "tanh", "erf", "erfc", "sin", "cos", "tan", "asin", "acos",
    "atan", "sinh", "cosh", "asinh", "acosh", "atanh", "lgamma",
)  # fmt: skip
_OF_TWO = ("pow", "atan2", "hypot", "nextafter", "fmod", "copysign")

_ANY = {
    "negate": "-{0}",
    "absolute": "tl.abs({0})",
    "floor": "libdevice.floor({0})",
    "ceil": "libdevice.ceil({0})",
    "truncate": "libdevice.trunc({0})",
    "round": "libdevice.rint({0})",
    "sign": "({0} > 0).to({type}) - ({0} < 0).to({type})",
    "not": "~{0}",
    "is_nan": "{0} != {0}",
    "is_infinite": 'tl.abs({0}) == float("inf")',
    "square_root": "tl.sqrt({0})",
    "reciprocal": "1 / {0}",
    "reciprocal_square_root": "libdevice.rsqrt({0})",
    "sigmoid": "1 / (1 + libdevice.exp(-{0}))",
    "add": "{0} + {1}",
    "subtract": "{0} - {1}",
    "multiply": "{0} * {1}",
    "maximum": "tl.maximum({0}, {1})",
    "minimum": "tl.minimum({0}, {1})",
    "fmax": "tl.maximum({0}, {1})",
    "fmin": "tl.minimum({0}, {1})",
    "and": "{0} & {1}",
    "or": "{0} | {1}",
    "xor": "{0} ^ {1}",
    "shift_left": "{0} << {1}",
    "shift_right": "{0} >> {1}",
    "equal": "{0} == {1}",
    "not_equal": "{0} != {1}",
    "less": "{0} < {1}",
    "less_equal": "{0} <= {1}",
    "greater": "{0} > {1}",
    "greater_equal": "{0} >= {1}",
    "divide": "{0} / {1}",
    "where": "tl.where({0}, {1}, {2})",
    "random": "random_unit({0}, {1}, {2})",
    **dict.fromkeys(_OF_ONE, "libdevice.{name}({0})"),
    **dict.fromkeys(_OF_TWO, "libdevice.{name}({0}, {1})"),
}

_FLOAT = {
    "maximum": "larger({0}, {1})",
    "minimum": "smaller({0}, {1})",
    "floor_divide": "float_floor_divide({0}, {1})",
    "remainder": "float_modulo({0}, {1})",
    "truncate_divide": "libdevice.trunc({0} / {1})",
}

_SINGLE = {
    **_FLOAT,
    "maximum": "tl.maximum({0}, {1}, propagate_nan=tl.PropagateNan.ALL)",
    "minimum": "tl.minimum({0}, {1}, propagate_nan=tl.PropagateNan.ALL)",
    "square_root": "tl.sqrt_rn({0})",
    "reciprocal": "tl.div_rn(tl.full([], 1.0, tl.float32), {0})",
    "sigmoid": "tl.div_rn(tl.full([], 1.0, tl.float32), 1 + libdevice.exp(-{0}))",
    "divide": "tl.div_rn({0}, {1})",
    "truncate_divide": "libdevice.trunc(tl.div_rn({0}, {1}))",
    "sign_bit": "{0}.to(tl.int32, bitcast=True) < 0",
}

_NEAR = {
    "divide": "quotient({0}, {1})",
    "reciprocal": "quotient(tl.full([], 1.0, tl.float32), {0})",
    "sigmoid": "inverse_of_more(1 + libdevice.exp(-{0}))",
}
"""For f32: within a unit in the last place (three, of what is less than 2**-102), and without the branch that makes a correctly rounded
division dear."""

_COARSE = {
    "exp": "tl.exp({0})",
    "exp2": "tl.exp2({0})",
    "divide": "{0} / {1}",
    "reciprocal": "1 / {0}",
    "sigmoid": "1 / (1 + tl.exp(-{0}))",
    "square_root": "tl.sqrt({0})",
}
"""For f32 on the way to 16 bits; within some 2**-17."""

_LOOSE: dict[Precision, dict[str, str]] = {"exact": {}, "near": _NEAR, "coarse": _COARSE}

_DOUBLE = {**_FLOAT, "sign_bit": "{0}.to(tl.int64, bitcast=True) < 0"}

_INTEGER = {
    "floor_divide": "floor_divide({0}, {1})",
    "remainder": "modulo({0}, {1})",
    "fmod": "{0} - ({0} // {1}) * {1}",
    "truncate_divide": "{0} // {1}",
    "sign_bit": "{0} < 0",
    **dict.fromkeys(("floor", "ceil", "truncate", "round"), "{0}"),
}

_BOOL = {
    "not": "{0} == 0",
    "maximum": "{0} | {1}",
    "minimum": "{0} & {1}",
    "add": "{0} | {1}",
    "multiply": "{0} & {1}",
    "absolute": "{0}",
    "equal": "({0} ^ {1}) == 0",
    "not_equal": "{0} ^ {1}",
}


class UnknownOperation(Exception):
    """No rule for this operation on this dtype."""


def render(name: str, dtype: torch.dtype, arguments: Sequence[str], precision: Precision = "exact") -> str:
    """The expression; `dtype` is that of the arguments. Raises UnknownOperation."""
    loose = _LOOSE[precision].get(name) if dtype == torch.float32 else None
    rule = loose or _rules(dtype).get(name) or _ANY.get(name)
    if rule is None:
        raise UnknownOperation(f"{name} on {dtype}")
    return rule.format(*(_closed(argument) for argument in arguments), type=TEXT[dtype], name=name)


def render_cast(argument: str, source: torch.dtype, target: torch.dtype) -> str:
    if source == target:
        return argument
    if target == torch.bool:
        return f"{argument} != 0"
    if target in SIXTEEN_BIT_FLOATS and not source.is_floating_point:
        return f"{argument}.to(tl.float32).to({TEXT[target]})"
    return f"{argument}.to({TEXT[target]})"


def exact_reciprocal(divisor: float) -> float | None:
    """What to multiply by in place of dividing, for the same result bit by bit: a power of two that every type has. A division takes many
    times as long."""
    mantissa, exponent = math.frexp(divisor)
    return 1.0 / divisor if abs(mantissa) == 0.5 and abs(exponent) < 100 else None


def helpers_in(expression: str) -> frozenset[str]:
    """The helper functions that an expression names."""
    return frozenset(name for name in re.findall(r"(?<![\w.])[a-z_]+\b", expression) if name in HELPERS)


def _rules(dtype: torch.dtype) -> dict[str, str]:
    if dtype == torch.bool:
        return _BOOL
    if not dtype.is_floating_point:
        return _INTEGER
    return _DOUBLE if dtype == torch.float64 else _SINGLE


def _closed(argument: str) -> str:
    """A negative literal in parentheses: `a - -1` is right but hard to read."""
    return f"({argument})" if argument.startswith("-") else argument
