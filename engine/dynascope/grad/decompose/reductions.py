"""Reductions by their general forms, scatters of gradients into zeros, and operators with several names."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from dynascope.grad.build import StepBuilder as B
from dynascope.grad.decompose.pointwise import HALF, wide
from dynascope.grad.shapes import inferred_sizes, slice_bounds, viewed_strides, wrap_dimension, wrap_dimensions
from dynascope.grad.tape import Value
from dynascope.grad.views import reshape

aten = torch.ops.aten


def _sum(b: B, x: Value, *, dtype: Any = None) -> Value:
    return b.sum(x, list(range(x.rank)), False, **({} if dtype is None else {"dtype": dtype}))


def _mean(b: B, x: Value, *, dtype: Any = None) -> Any:
    return b.mean(x, list(range(x.rank)), False, **({} if dtype is None else {"dtype": dtype}))


def _variance(b: B, x: Value, dimensions: Any = None, *, correction: Any = None, keepdim: Any = False) -> Any:
    if not x.dtype.is_floating_point or not x.layout.element_count:
        return NotImplemented
    reduced = list(wrap_dimensions(dimensions, x.rank))
    value = b.var_mean(
        b.convert(x, wide(x.dtype)), reduced, correction=1 if correction is None else correction, keepdim=keepdim
    )[0]
    return b.convert(value, x.dtype)


def _deviation(b: B, x: Value, dimensions: Any = None, *, correction: Any = None, keepdim: Any = False) -> Any:
    if x.dtype in HALF:
        return NotImplemented
    variance = _variance(b, x, dimensions, correction=correction, keepdim=keepdim)
    return variance if variance is NotImplemented else b.sqrt(variance)


def _deviation_and_mean(b: B, x: Value, dimensions: Any = None, *, correction: Any = None, keepdim: Any = False) -> Any:
    if not x.dtype.is_floating_point or x.dtype in HALF or not x.layout.element_count:
        return NotImplemented
    reduced = list(wrap_dimensions(dimensions, x.rank))
    variance, mean = b.var_mean(x, reduced, correction=1 if correction is None else correction, keepdim=keepdim)
    return b.sqrt(variance), mean


def _vector_norm(b: B, x: Value, order: Any = 2, dimensions: Any = None, keepdim: Any = False, *, dtype: Any = None) -> Any:
    if not x.dtype.is_floating_point or not x.layout.element_count or type(order) not in (int, float):
        return NotImplemented
    if dtype is not None and not dtype.is_floating_point:
        return NotImplemented
    result = dtype or x.dtype
    reduced = list(wrap_dimensions(dimensions, x.rank))
    x = b.convert(x, wide(result))
    if order == 2:
        made = b.sqrt(b.sum(b.mul(x, x), reduced, keepdim))
    elif order == 0:
        made = b.sum(b.convert(b.compare("ne", x, 0), x.dtype), reduced, keepdim)
    elif math.isinf(order):
        made = (b.amax if order > 0 else b.amin)(b.abs(x), reduced, keepdim)
    elif order == 1:
        made = b.sum(b.abs(x), reduced, keepdim)
    else:
        made = b.power(b.sum(b.power(b.abs(x), order), reduced, keepdim), 1.0 / order)
    return b.convert(made, result)


def _norm(b: B, x: Value, order: Any = 2, dimensions: Any = None, keepdim: Any = False, *, dtype: Any = None) -> Any:
    return _vector_norm(b, x, 2 if order is None else order, dimensions, keepdim, dtype=dtype)


def _count_nonzero(b: B, x: Value, dimensions: Any = None) -> Any:
    if x.dtype.is_complex or not x.layout.element_count:
        return NotImplemented
    return b.sum(b.convert(b.compare("ne", x, 0), torch.int64), list(wrap_dimensions(dimensions, x.rank)))


def _nan_sum(b: B, x: Value, dimensions: Any = None, keepdim: Any = False, *, dtype: Any = None) -> Any:
    if not x.dtype.is_floating_point or not x.layout.element_count:
        return NotImplemented
    there = b.where(b.isnan(x), b.full([], 0, like=x), x)
    reduced = list(wrap_dimensions(dimensions, x.rank))
    return b.sum(there, reduced, keepdim, **({} if dtype is None else {"dtype": dtype}))


def _select_backward(b: B, gradient: Value, sizes: Sequence[int], dimension: int, index: int) -> Value:
    return b.op(aten.select_scatter.default, b.full(sizes, 0, like=gradient), gradient, dimension, index)


def _slice_backward(
    b: B, gradient: Value, sizes: Sequence[int], dimension: int, start: int, end: int, step: int
) -> Value:
    dimension = wrap_dimension(dimension, len(sizes))
    first, last = slice_bounds(start, end, sizes[dimension])
    return b.op(aten.slice_scatter.default, b.full(sizes, 0, like=gradient), gradient, dimension, first, last, step)


def _unsafe_view(b: B, x: Value, sizes: Sequence[int]) -> Value:
    """What torch's `reshape` makes of a copy. That there is no view without one is asked of sizes that vary, and so relied on."""
    if x.step is not None and x.step.target is aten.clone.default and x.layout.varies:
        copied = x.step.arguments[0].layout
        viewed_strides(copied.sizes, copied.strides, inferred_sizes(sizes, copied.element_count))
    return reshape(b, x, sizes)


def _stack(b: B, tensors: Sequence[Value], dimension: int = 0) -> Value:
    """As ATen: but for the last dimension, the operands themselves are joined, which may all be channels-last."""
    rank = tensors[0].rank
    dimension = dimension % (rank + 1)
    if dimension < rank and rank in (4, 5) and all(t.sizes == tensors[0].sizes for t in tensors):
        whole = b.op(aten.cat.default, list(tensors), dimension)
        sizes = tensors[0].sizes
        return reshape(b, whole, (*sizes[:dimension], len(tensors), *sizes[dimension:]))
    return b.op(aten.cat.default, [b.unsqueeze(t, dimension) for t in tensors], dimension)


def _native_dropout_backward(b: B, gradient: Value, mask: Value, scale: float) -> Value:
    return b.mul(b.mul(gradient, b.convert(mask, gradient.dtype)), scale)


def _by_number(tensor_form: Any) -> Callable[..., Any]:
    """`mul.Scalar(x, 2)` is `mul.Tensor(x, 2)`: a number is a number in both."""

    def apply(b: B, x: Value, number: Any, *rest: Any, **keywords: Any) -> Any:
        if rest:
            keywords = {**keywords, "alpha": rest[0]}
        return b.op(tensor_form, x, number, **keywords)

    return apply


TABLE: dict[Any, Callable[..., Any]] = {
    aten.sum.default: _sum,
    aten.mean.default: _mean,
    aten.var.correction: _variance,
    aten.std.correction: _deviation,
    aten.std_mean.correction: _deviation_and_mean,
    aten.linalg_vector_norm.default: _vector_norm,
    aten.norm.Scalar: _norm,
    aten.norm.ScalarOpt_dim: _norm,
    aten.count_nonzero.default: _count_nonzero,
    aten.count_nonzero.dim_IntList: _count_nonzero,
    aten.nansum.default: _nan_sum,
    aten.select_backward.default: _select_backward,
    aten.slice_backward.default: _slice_backward,
    aten._unsafe_view.default: _unsafe_view,
    aten.stack.default: _stack,
    aten.native_dropout_backward.default: _native_dropout_backward,
    aten.add.Scalar: _by_number(aten.add.Tensor),
    aten.sub.Scalar: _by_number(aten.sub.Tensor),
    aten.mul.Scalar: _by_number(aten.mul.Tensor),
    aten.div.Scalar: _by_number(aten.div.Tensor),
}
