"""Elementwise operators and their backward forms, out of arithmetic.

Half precision computes in float32 and rounds once at the end, as eager's kernels do.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import torch

from dynascope.grad.build import StepBuilder as B
from dynascope.grad.shapes import promoted
from dynascope.grad.tape import Value

aten = torch.ops.aten
TABLE: dict[Any, Callable[..., Any]] = {}
HALF = (torch.float16, torch.bfloat16)


def decomposes(*operators: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        TABLE.update(dict.fromkeys(operators, function))
        return function

    return register


def wide(dtype: torch.dtype) -> torch.dtype:
    """What eager's kernels compute in when the data is of `dtype`."""
    return torch.float32 if dtype in HALF else dtype


def widened(function: Callable[..., Any]) -> Callable[..., Any]:
    """Half-precision values arrive as float32; the result leaves in the dtype that the operands promote to."""

    @functools.wraps(function)
    def apply(b: B, *arguments: Any, **keywords: Any) -> Any:
        values = [a for a in (*arguments, *keywords.values()) if isinstance(a, Value) and a.dtype.is_floating_point]
        if not values or not any(v.dtype in HALF for v in values):
            return function(b, *arguments, **keywords)
        result = promoted(values)
        lift = lambda a: b.convert(a, torch.float32) if isinstance(a, Value) and a.dtype in HALF else a  # noqa: E731
        out = function(b, *map(lift, arguments), **{name: lift(a) for name, a in keywords.items()})
        return b.convert(out, result)

    return apply


def floats_only(function: Callable[..., Any]) -> Callable[..., Any]:
    """Leaves the operator as it is for integers and complex numbers."""

    @functools.wraps(function)
    def apply(b: B, first: Any, *rest: Any, **keywords: Any) -> Any:
        if isinstance(first, Value) and not first.dtype.is_floating_point:
            return NotImplemented
        return function(b, first, *rest, **keywords)

    return apply


@decomposes(aten.gelu.default)
@widened
@floats_only
def gelu(b: B, x: Value, *, approximate: str = "none") -> Value:
    if approximate == "tanh":
        inner = b.mul(b.add(x, b.mul(b.mul(b.mul(x, x), x), 0.044715)), math.sqrt(2 / math.pi))
        return b.mul(b.mul(x, 0.5), b.add(b.tanh(inner), 1))
    return b.mul(b.mul(x, 0.5), b.add(b.erf(b.mul(x, math.sqrt(0.5))), 1))


@decomposes(aten.gelu_backward.default)
@widened
@floats_only
def gelu_backward(b: B, gradient: Value, x: Value, *, approximate: str = "none") -> Value:
    if approximate == "tanh":
        factor, cubic = math.sqrt(2 / math.pi), 0.044715
        square = b.mul(x, x)
        bent = b.tanh(b.mul(b.add(x, b.mul(b.mul(square, x), cubic)), factor))
        left = b.mul(b.add(bent, 1), 0.5)
        slope = b.mul(b.add(b.mul(square, 3 * cubic), 1), factor)
        right = b.mul(b.mul(b.mul(x, 0.5), b.sub(b.full([], 1, like=x), b.mul(bent, bent))), slope)
        return b.mul(gradient, b.add(left, right))
    cdf = b.mul(b.add(b.erf(b.mul(x, math.sqrt(0.5))), 1), 0.5)
    pdf = b.mul(b.exp(b.mul(b.mul(x, x), -0.5)), 1 / math.sqrt(2 * math.pi))
    return b.mul(gradient, b.add(cdf, b.mul(x, pdf)))


def one_minus(b: B, x: Value) -> Value:
    return b.add(b.neg(x), 1)


@decomposes(aten.sigmoid_backward.default)
@widened
@floats_only
def sigmoid_backward(b: B, gradient: Value, y: Value) -> Value:
    return b.mul(b.mul(gradient, one_minus(b, y)), y)


@decomposes(aten.tanh_backward.default)
@widened
@floats_only
def tanh_backward(b: B, gradient: Value, y: Value) -> Value:
    return b.mul(gradient, one_minus(b, b.mul(y, y)))


@decomposes(aten.threshold_backward.default)
def threshold_backward(b: B, gradient: Value, x: Value, threshold: Any) -> Value:
    return b.where(b.compare("le", x, threshold), b.full([], 0, like=gradient), gradient)


@decomposes(aten.relu.default)
@floats_only
def relu(b: B, x: Value) -> Value:
    """`relu` stays: it passes NaN on, which a comparison would not."""
    return NotImplemented


@decomposes(aten.silu.default)
@widened
@floats_only
def silu(b: B, x: Value) -> Value:
    return b.div(x, b.add(b.exp(b.neg(x)), 1))


@decomposes(aten.mish_backward.default)
@widened
@floats_only
def mish_backward(b: B, gradient: Value, x: Value) -> Value:
    bent = b.tanh(b.log1p(b.exp(x)))
    slope = b.mul(b.mul(x, b.sigmoid(x)), one_minus(b, b.mul(bent, bent)))
    return b.mul(gradient, b.add(bent, slope))


@decomposes(aten.silu_backward.default)
@widened
@floats_only
def silu_backward(b: B, gradient: Value, x: Value) -> Value:
    y = b.sigmoid(x)
    return b.mul(b.mul(gradient, y), b.add(b.mul(x, one_minus(b, y)), 1))


@decomposes(aten.leaky_relu.default)
@floats_only
def leaky_relu(b: B, x: Value, slope: Any = 0.01) -> Value:
    return b.where(b.compare("gt", x, 0), x, b.mul(x, slope))


@decomposes(aten.leaky_relu_backward.default)
@floats_only
def leaky_relu_backward(b: B, gradient: Value, x: Value, slope: Any, is_result: Any) -> Value:
    return b.where(b.compare("gt", x, 0), gradient, b.mul(gradient, slope))


@decomposes(aten.hardtanh_backward.default)
@floats_only
def hardtanh_backward(b: B, gradient: Value, x: Value, low: Any, high: Any) -> Value:
    outside = b.op(aten.logical_or.default, b.compare("le", x, low), b.compare("ge", x, high))
    return b.where(outside, b.full([], 0, like=gradient), gradient)


@decomposes(aten.softplus.default)
@widened
@floats_only
def softplus(b: B, x: Value, beta: Any = 1, threshold: Any = 20) -> Value:
    scaled = b.mul(x, beta)
    return b.where(b.compare("gt", scaled, threshold), x, b.div(b.log1p(b.exp(scaled)), beta))


@decomposes(aten.softplus_backward.default)
@widened
@floats_only
def softplus_backward(b: B, gradient: Value, x: Value, beta: Any, threshold: Any) -> Value:
    scaled = b.mul(x, beta)
    power = b.exp(scaled)
    return b.where(b.compare("gt", scaled, threshold), gradient, b.div(b.mul(gradient, power), b.add(power, 1)))


@decomposes(aten.addcmul.default)
@floats_only
def addcmul(b: B, x: Value, first: Value, second: Value, *, value: Any = 1) -> Value:
    if (common := promoted((x, first, second))) in HALF:
        return NotImplemented
    product = b.mul(b.convert(first, common), b.convert(second, common))
    return b.add(x, product if value == 1 else b.mul(product, value))


@decomposes(aten.addcdiv.default)
@floats_only
def addcdiv(b: B, x: Value, first: Value, second: Value, *, value: Any = 1) -> Value:
    if (common := promoted((x, first, second))) in HALF:
        return NotImplemented
    first, second = b.convert(first, common), b.convert(second, common)
    return b.add(x, b.div(first if value == 1 else b.mul(first, value), second))


@decomposes(aten.rsub.Tensor, aten.rsub.Scalar)
def rsub(b: B, x: Value, other: Any, alpha: Any = 1) -> Any:
    if not isinstance(other, Value):
        # The negation of an integer wraps around: it is of the result's type.
        return NotImplemented if alpha != 1 else b.add(b.neg(b.convert(x, promoted((x, other)))), other)
    return b.op(aten.sub.Tensor, other, x, alpha=alpha) if alpha != 1 else b.sub(other, x)


@decomposes(aten.masked_fill.Scalar)
def masked_fill(b: B, x: Value, mask: Value, number: Any) -> Value:
    return b.where(mask, b.full([], number, like=x), x)


@decomposes(aten.masked_fill.Tensor)
def masked_fill_tensor(b: B, x: Value, mask: Value, value: Value) -> Any:
    if value.device != x.device:
        return NotImplemented
    return b.where(mask, b.convert(value, x.dtype), x)


@decomposes(aten.mse_loss.default)
@floats_only
def mse_loss(b: B, x: Value, target: Value, reduction: int = 1) -> Value:
    difference = b.sub(x, target)
    return reduce_loss(b, b.mul(difference, difference), reduction)


def reduce_loss(b: B, loss: Value, reduction: int) -> Value:
    if reduction == 0:
        return loss
    return b.mean(loss, list(range(loss.rank))) if reduction == 1 else b.sum(loss, list(range(loss.rank)))


@decomposes(aten.mse_loss_backward.default)
@floats_only
def mse_loss_backward(b: B, gradient: Value, x: Value, target: Value, reduction: int) -> Value:
    factor = 2.0 / x.layout.element_count if reduction == 1 else 2.0
    return b.mul(b.mul(b.sub(x, target), factor), gradient)


@decomposes(aten.where.ScalarOther, aten.where.ScalarSelf, aten.where.Scalar)
def where_numbers(b: B, condition: Value, x: Any, y: Any) -> Any:
    dtype = promoted((x, y))
    lift = lambda a: a if isinstance(a, Value) else b.full([], a, like=condition, dtype=dtype)  # noqa: E731
    return b.where(condition, lift(x), lift(y))
