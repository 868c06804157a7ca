"""Activation functions with options, and the gradients that torch has an operator for. The formulas are ATen's kernels'.

    elu_backward(g f32[8], 1, 1, 1, False, x f32[8])   ->   where (x > 0) g (g * exp x)
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import torch

from dynascope.loops.body import Scalar
from dynascope.loops.dtypes import compute_dtype
from dynascope.loops.lower.pointwise import elementwise
from dynascope.loops.lower.promotion import result_dtype
from dynascope.loops.lower.rules import Lowered, Lowering, NotLowered, rule

aten = torch.ops.aten
VARIES = NotLowered("an option that varies")


def _vary(*options: Any) -> bool:
    return not all(option is None or isinstance(option, (bool, int, float)) for option in options)


@rule(aten.elu_backward.default)
def elu_backward(call: Lowering) -> Lowered | NotLowered:
    gradient, alpha, scale, input_scale, of_result, operand = call.arguments
    if _vary(alpha, scale, input_scale):
        return VARIES
    below = alpha * scale

    def formula(g: Scalar, y: Scalar) -> Scalar:
        slope = (y + below) * input_scale if of_result else (y * input_scale).apply("exp") * (input_scale * below)
        return y.apply("less_equal", 0).where(g * slope, g * scale)

    return elementwise(call, formula, result_dtype(call), (gradient, operand))


@rule(aten.celu.default)
def celu(call: Lowering) -> Lowered | NotLowered:
    alpha = call.operand(1, "alpha", 1.0)
    if _vary(alpha):
        return VARIES
    if alpha == 0:
        return NotLowered("eager refuses it")
    formula = lambda x: x.greater(0).where(x, (x * (1.0 / alpha)).apply("expm1") * alpha)  # noqa: E731
    return elementwise(call, formula, result_dtype(call), call.arguments[:1])


def _inside(x: Scalar, bound: float) -> Scalar:
    return x.apply("greater_equal", -bound).apply("and", x.apply("less_equal", bound))


@rule(aten.hardshrink.default)
def hardshrink(call: Lowering) -> Lowered | NotLowered:
    bound = call.operand(1, "lambd", 0.5)
    formula = lambda x: _inside(x, bound).where(x.like(0), x)  # noqa: E731
    return VARIES if _vary(bound) else elementwise(call, formula, result_dtype(call), call.arguments[:1])


@rule(aten.softshrink.default)
def softshrink(call: Lowering) -> Lowered | NotLowered:
    bound = call.operand(1, "lambd", 0.5)
    if _vary(bound):
        return VARIES

    def formula(x: Scalar) -> Scalar:
        between = x.apply("is_nan").where(x, 0.0)
        return x.greater(bound).where(x - bound, x.less(-bound).where(x + bound, between))

    return elementwise(call, formula, result_dtype(call), call.arguments[:1])


@rule(aten.hardshrink_backward.default, aten.softshrink_backward.default)
def shrink_backward(call: Lowering) -> Lowered | NotLowered:
    gradient, x, bound = call.arguments
    formula = lambda g, v: _inside(v, bound).where(g.like(0), g)  # noqa: E731
    return VARIES if _vary(bound) else elementwise(call, formula, result_dtype(call), (gradient, x))


@rule(aten.hardsigmoid_backward.default)
def hardsigmoid_backward(call: Lowering) -> Lowered:
    def formula(g: Scalar, x: Scalar) -> Scalar:
        return x.greater(-3.0).apply("and", x.less(3.0)).where(g * (1.0 / 6.0), 0.0)

    return elementwise(call, formula, result_dtype(call), call.arguments)


@rule(aten.hardswish_backward.default)
def hardswish_backward(call: Lowering) -> Lowered:
    below, above = ("less_equal", "less") if _flat_at_the_bounds() else ("less", "less_equal")

    def formula(g: Scalar, x: Scalar) -> Scalar:
        inner = x.apply(above, 3.0).where(g * (x / 3.0 + 0.5), g)
        return x.apply(below, -3.0).where(g.like(0), inner)

    return elementwise(call, formula, result_dtype(call), call.arguments)


@cache
def _flat_at_the_bounds() -> bool:
    """Whether the slope at -3 is 0, and at 3 is 1: torch's versions differ."""
    return not aten.hardswish_backward.default(torch.ones(1), torch.tensor([-3.0])).any()


@rule(aten._prelu_kernel.default)
def prelu(call: Lowering) -> Lowered:
    return elementwise(call, lambda x, w: x.greater(0).where(x, w * x), result_dtype(call), call.arguments)


@rule(aten._prelu_kernel_backward.default)
def prelu_backward(call: Lowering) -> Lowered | NotLowered:
    gradient, x, weight = call.arguments
    shapes = [tuple(result.shape) for result in call.results]
    if shapes[0] != shapes[1]:
        return NotLowered("gradients of two shapes")
    nest = call.nest(call.results[0].shape)
    dtype = call.results[0].dtype
    g, v, w = (call.scalar(nest, operand, nest.indices, dtype).cast(compute_dtype(dtype)) for operand in (gradient, x, weight))
    is_above = v.greater(0)
    return call.finish(nest, is_above.where(g, w * g), is_above.where(g.like(0), v * g))


def _margin(call: Lowering, position: int) -> Any:
    """None where nothing is cut off at the ends: so ATen takes a negative number."""
    given = call.operand(position, "eps")
    return None if isinstance(given, (int, float)) and given < 0 else given


@rule(aten.logit.default)
def logit(call: Lowering) -> Lowered | NotLowered:
    margin = _margin(call, 1)
    if _vary(margin):
        return VARIES

    def formula(x: Scalar) -> Scalar:
        if margin is not None:
            low, high = x.like(margin), 1.0 - x.like(margin)
            x = x.less(low).where(low, x.greater(high).where(high, x))
        return x.equal(1.0).where(x.like(math.inf), (x / (1.0 - x)).apply("log"))

    return elementwise(call, formula, result_dtype(call), call.arguments[:1])


@rule(aten.logit_backward.default)
def logit_backward(call: Lowering) -> Lowered | NotLowered:
    gradient, x = call.arguments[:2]
    margin = _margin(call, 2)
    if _vary(margin):
        return VARIES

    def formula(g: Scalar, v: Scalar) -> Scalar:
        inside = g / (v * (1.0 - v))
        if margin is None:
            outside = v.less(0.0).apply("or", v.greater(1.0))
            edge = v.equal(0.0).apply("or", v.equal(1.0))
            return outside.where(v.like(math.nan), edge.where(g * math.inf, inside))
        low, high = v.like(margin), 1.0 - v.like(margin)
        return v.less(low).apply("or", v.greater(high)).where(g.like(0), inside)

    return elementwise(call, formula, result_dtype(call), (gradient, x))
