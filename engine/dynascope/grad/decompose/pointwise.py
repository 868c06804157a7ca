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
from dynascope.grad.decompose.tables import decomposing
from dynascope.grad.shapes import ShapeMismatch, promoted
from dynascope.grad.tape import Value

aten = torch.ops.aten
TABLE: dict[Any, Callable[..., Any]] = {}
decomposes = decomposing(TABLE)
HALF = (torch.float16, torch.bfloat16)


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
        return out if out is NotImplemented else b.convert(out, result)

    return apply


def floats_only(function: Callable[..., Any]) -> Callable[..., Any]:
    """Leaves the operator as it is for integers and complex numbers, also where a factor alone is one (`addcmul(value=2 + 0j)`)."""

    @functools.wraps(function)
    def apply(b: B, first: Any, *rest: Any, **keywords: Any) -> Any:
        if isinstance(first, Value) and not first.dtype.is_floating_point:
            return NotImplemented
        if any(isinstance(each, complex) for each in (*rest, *keywords.values())):
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


@decomposes(aten.log_sigmoid_forward.default)
@floats_only
def log_sigmoid(b: B, x: Value) -> Any:
    """And what a processor keeps of it, which nothing here reads: on a GPU that has no elements."""
    wide_x = b.convert(x, wide(x.dtype))
    small = b.exp(b.neg(b.abs(wide_x)))
    result = b.convert(b.sub(b.clamp_max(wide_x, 0), b.log1p(small)), x.dtype)
    return result, b.convert(small, x.dtype) if x.device.type == "cpu" else b.full([0], 0, like=x)


@decomposes(aten.log_sigmoid_backward.default)
@widened
@floats_only
def log_sigmoid_backward(b: B, gradient: Value, x: Value, kept: Value) -> Value:
    small = b.exp(b.neg(b.abs(x)))
    share = b.div(small, b.add(small, 1))
    return b.mul(gradient, b.where(b.compare("lt", x, 0), one_minus(b, share), share))


@decomposes(aten.glu.default)
@widened
@floats_only
def glu(b: B, x: Value, dimension: int = -1) -> Value:
    value, gate = _halves(b, x, dimension)
    return b.mul(value, b.sigmoid(gate))


@decomposes(aten.glu_backward.default)
@floats_only
def glu_backward(b: B, gradient: Value, x: Value, dimension: int) -> Value:
    value, gate, gradient = (b.convert(each, wide(x.dtype)) for each in (*_halves(b, x, dimension), gradient))
    opened = b.sigmoid(gate)
    of_gate = b.mul(b.mul(b.mul(one_minus(b, opened), opened), gradient), value)
    return b.op(aten.cat.default, [b.convert(each, x.dtype) for each in (b.mul(opened, gradient), of_gate)], dimension)


def _halves(b: B, x: Value, dimension: int) -> tuple[Value, Value]:
    half, rest = divmod(x.sizes[dimension], 2)
    if rest != 0:  # of a size that varies it is relied on that it is even
        raise ShapeMismatch(f"Halving dimension must be even, but dimension {dimension} is size {x.sizes[dimension]}")
    return b.slice(x, dimension, 0, half), b.slice(x, dimension, half, 2 * half)


@decomposes(aten.xlogy.Tensor, aten.xlogy.Scalar_Self, aten.xlogy.Scalar_Other)
def xlogy(b: B, x: Any, y: Any) -> Any:
    return _times_log(b, x, y, b.log)


@decomposes(aten.special_xlog1py.default, aten.special_xlog1py.self_scalar, aten.special_xlog1py.other_scalar)
def xlog1py(b: B, x: Any, y: Any) -> Any:
    return _times_log(b, x, y, b.log1p)


def _times_log(b: B, x: Any, y: Any, log: Callable[[Value], Value]) -> Any:
    """0 where `x` is, whatever the logarithm is, unless `y` is NaN."""
    tensors = [each for each in (x, y) if isinstance(each, Value)]
    common = promoted((x, y))
    if not common.is_floating_point or len({each.device for each in tensors}) > 1:
        return NotImplemented
    like, dtype = tensors[0], wide(common)
    # A number is first one of the type that both promote to.
    lift = lambda a: a if isinstance(a, Value) else b.full([], a, like=like, dtype=common)  # noqa: E731
    x, y = (b.convert(b.convert(lift(a), common), dtype) for a in (x, y))
    zero = b.full([], 0, like=like, dtype=dtype)
    product = b.where(b.compare("eq", x, 0), zero, b.mul(x, log(y)))
    return b.convert(b.where(b.isnan(y), b.full([], math.nan, like=like, dtype=dtype), product), common)


@decomposes(aten.logaddexp.default)
@widened
@floats_only
def logaddexp(b: B, x: Value, y: Value) -> Any:
    return _log_of_sum(b, x, y, b.exp, 1.0)


@decomposes(aten.logaddexp2.default)
@widened
@floats_only
def logaddexp2(b: B, x: Value, y: Value) -> Any:
    return _log_of_sum(b, x, y, b.exp2, 1.0 / math.log(2.0))


def _log_of_sum(b: B, x: Value, y: Value, power: Callable[[Value], Value], factor: float) -> Any:
    if x.dtype != y.dtype or x.device != y.device:
        return NotImplemented
    rest = b.log1p(power(b.neg(b.abs(b.sub(x, y)))))
    both = b.logical_and(b.isinf(x), b.compare("eq", x, y))
    return b.where(both, x, b.add(b.maximum(x, y), rest if factor == 1.0 else b.mul(rest, factor)))


@decomposes(aten.heaviside.default)
def heaviside(b: B, x: Value, at_zero: Value) -> Any:
    if x.dtype != at_zero.dtype or x.device != at_zero.device:
        return NotImplemented
    return b.where(b.compare("eq", x, 0), at_zero, b.convert(b.compare("gt", x, 0), x.dtype))


@decomposes(aten.deg2rad.default)
@floats_only
def deg2rad(b: B, x: Value) -> Value:
    return b.mul(x, math.pi / 180.0)


@decomposes(aten.rad2deg.default)
@floats_only
def rad2deg(b: B, x: Value) -> Value:
    return b.mul(x, 180.0 / math.pi)


@decomposes(aten.isposinf.default)
@floats_only
def isposinf(b: B, x: Value) -> Value:
    return b.compare("eq", x, math.inf)


@decomposes(aten.isneginf.default)
@floats_only
def isneginf(b: B, x: Value) -> Value:
    return b.compare("eq", x, -math.inf)


@decomposes(aten.sinc.default)
@widened
@floats_only
def sinc(b: B, x: Value) -> Value:
    angle = b.mul(x, math.pi)
    return b.where(b.compare("eq", x, 0), b.full([], 1, like=x), b.div(b.sin(angle), angle))


@decomposes(aten.special_entr.default)
@widened
@floats_only
def entropy(b: B, x: Value) -> Value:
    number = lambda value: b.full([], value, like=x)  # noqa: E731
    elsewhere = b.where(b.compare("eq", x, 0), number(0), number(-math.inf))
    inside = b.where(b.compare("gt", x, 0), b.mul(b.neg(x), b.log(x)), elsewhere)
    return b.where(b.isnan(x), x, inside)


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


@decomposes(aten.where.ScalarOther, aten.where.ScalarSelf, aten.where.Scalar)
def where_numbers(b: B, condition: Value, x: Any, y: Any) -> Any:
    dtype = promoted((x, y))
    lift = lambda a: a if isinstance(a, Value) else b.full([], a, like=condition, dtype=dtype)  # noqa: E731
    return b.where(condition, lift(x), lift(y))
