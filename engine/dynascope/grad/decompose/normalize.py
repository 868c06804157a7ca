"""Softmax, layer, group and batch normalisation, and the losses over classes: reductions and arithmetic."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch

from dynascope.grad.build import StepBuilder as B
from dynascope.grad.decompose.pointwise import wide
from dynascope.grad.decompose.tables import decomposing
from dynascope.grad.tape import Value, contiguous_strides
from dynascope.sizes import product, same

aten = torch.ops.aten
TABLE: dict[Any, Callable[..., Any]] = {}


decomposes = decomposing(TABLE)


def _result_dtype(x: Value, to_float: Any) -> torch.dtype:
    return torch.float32 if to_float else x.dtype


@decomposes(aten._softmax.default)
def softmax(b: B, x: Value, dimension: int, half_to_float: Any) -> Any:
    if not x.layout.element_count or not x.dtype.is_floating_point:
        return NotImplemented
    result = _result_dtype(x, half_to_float)
    x = b.convert(_contiguous(b, x), wide(x.dtype))
    exponential = b.exp(b.sub(x, b.amax(x, [dimension], True)))
    return b.convert(b.div(exponential, b.sum(exponential, [dimension], True)), result)


@decomposes(aten._safe_softmax.default)
def safe_softmax(b: B, x: Value, dimension: int, dtype: torch.dtype | None = None) -> Any:
    """Rows that are hidden as a whole are zeros: attention written out by torch, with a mask."""
    if not x.layout.element_count or not x.dtype.is_floating_point:
        return NotImplemented
    result = b.op(aten._softmax.default, x if dtype is None else b.convert(x, dtype), dimension, False)
    largest = b.amax(b.convert(_contiguous(b, x), wide(x.dtype)), [dimension], True)
    return b.where(b.compare("eq", largest, -math.inf), b.full([], 0, like=result), result)


@decomposes(aten._log_softmax.default)
def log_softmax(b: B, x: Value, dimension: int, half_to_float: Any) -> Any:
    if not x.layout.element_count or not x.dtype.is_floating_point:
        return NotImplemented
    result = _result_dtype(x, half_to_float)
    x = b.convert(_contiguous(b, x), wide(x.dtype))
    shifted = b.sub(x, b.amax(x, [dimension], True))
    return b.convert(b.sub(shifted, b.log(b.sum(b.exp(shifted), [dimension], True))), result)


def _contiguous(b: B, x: Value) -> Value:
    """Eager's kernels return contiguous results for any input."""
    return b.clone(x, memory_format=torch.contiguous_format)


def _is_refused(gradient: Value, dtype: torch.dtype) -> bool:
    """Only a GPU's kernel gives a gradient of another type than the one it gets."""
    return gradient.device.type == "cpu" and gradient.dtype != dtype


@decomposes(aten._softmax_backward_data.default)
def softmax_backward(b: B, gradient: Value, y: Value, dimension: int, dtype: torch.dtype) -> Any:
    if not y.layout.element_count or not y.dtype.is_floating_point or _is_refused(gradient, dtype):
        return NotImplemented
    gradient, y = b.convert(_contiguous(b, gradient), wide(gradient.dtype)), b.convert(_contiguous(b, y), wide(y.dtype))
    product = b.mul(gradient, y)
    return b.convert(b.sub(product, b.mul(y, b.sum(product, [dimension], True))), dtype)


@decomposes(aten._log_softmax_backward_data.default)
def log_softmax_backward(b: B, gradient: Value, y: Value, dimension: int, dtype: torch.dtype) -> Any:
    if not y.layout.element_count or not y.dtype.is_floating_point or _is_refused(gradient, dtype):
        return NotImplemented
    gradient, y = b.convert(_contiguous(b, gradient), wide(gradient.dtype)), b.convert(_contiguous(b, y), wide(y.dtype))
    return b.convert(b.sub(gradient, b.mul(b.exp(y), b.sum(gradient, [dimension], True))), dtype)


@decomposes(aten.native_layer_norm.default)
def layer_norm(b: B, x: Value, shape: Sequence[int], weight: Value | None, bias: Value | None, epsilon: float) -> Any:
    if not x.layout.element_count or not _fits(x, shape, weight, bias):
        return NotImplemented
    mixed = weight is not None and weight.dtype is not x.dtype
    dimensions = list(range(x.rank - len(shape), x.rank))
    wider = b.convert(_contiguous(b, x), wide(x.dtype))
    out, mean, scale = _normalized(b, wider, dimensions, epsilon)
    out = out if weight is None else b.mul(out, b.convert(weight, wider.dtype))
    out = out if bias is None else b.add(out, b.convert(bias, wider.dtype))
    if x.device.type == "cpu" and not mixed:
        mean, scale = b.convert(mean, x.dtype), b.convert(scale, x.dtype)
    return b.convert(out, x.dtype), mean, scale


def _normalized(b: B, x: Value, dimensions: list[int], epsilon: float) -> tuple[Value, Value, Value]:
    """(x - mean) * scale over these dimensions, mean, scale."""
    variance, mean = b.var_mean(x, dimensions, correction=0, keepdim=True)
    scale = b.rsqrt(b.add(variance, epsilon))
    return b.mul(b.sub(x, mean), scale), mean, scale


def _fits(x: Value, shape: Sequence[int], *parameters: Value | None) -> bool:
    """Whether what is normalized has the shape given; of sizes that vary this is relied on. Eager raises where it has not."""
    given = [x.sizes[x.rank - len(shape) :], *(each.sizes for each in parameters if each is not None)]
    return all(len(sizes) == len(shape) and all(map(operator.eq, sizes, shape)) for sizes in given)


@decomposes(aten.native_layer_norm_backward.default)
def layer_norm_backward(
    b: B,
    gradient: Value,
    x: Value,
    shape: Sequence[int],
    mean: Value,
    scale: Value,
    weight: Value | None,
    bias: Value | None,
    mask: Sequence[bool],
) -> Any:
    if not x.layout.element_count:
        return NotImplemented
    axis = x.rank - len(shape)
    inner, outer = list(range(axis, x.rank)), list(range(axis))
    dtype = wide(x.dtype)
    wide_gradient, mean, scale = (
        b.convert(_contiguous(b, gradient), dtype),
        b.convert(mean, dtype),
        b.convert(scale, dtype),
    )
    normal = b.mul(b.sub(b.convert(_contiguous(b, x), dtype), mean), scale)
    weighted = wide_gradient if weight is None else b.mul(wide_gradient, b.convert(weight, dtype))
    to_x = to_weight = to_bias = None
    if mask[0]:
        total, aligned = b.sum(weighted, inner, True), b.sum(b.mul(weighted, normal), inner, True)
        to_x = b.convert(_to_normalized(b, weighted, normal, scale, total, aligned, product(shape)), x.dtype)
    if mask[1] and weight is not None:
        products = b.mul(wide_gradient, normal)
        to_weight = b.convert(b.sum(products, outer) if outer else products, weight.dtype)
    if mask[2] and bias is not None:
        to_bias = b.convert(b.sum(wide_gradient, outer) if outer else wide_gradient, bias.dtype)
    return to_x, to_weight, to_bias


@decomposes(aten.native_group_norm.default)
def group_norm(
    b: B, x: Value, weight: Value | None, bias: Value | None, batch: Any, channels: Any, spatial: Any, groups: int, epsilon: float
) -> Any:
    if not _can_be_grouped(x, groups, weight, bias):
        return NotImplemented
    shape, dtype = _grouped_shape(x, groups), wide(x.dtype)
    out, mean, scale = _normalized(b, b.view(b.convert(x, dtype), shape), [2, 3], epsilon)
    out = out if weight is None else b.mul(out, _by_channel(b, weight, shape, dtype))
    out = out if bias is None else b.add(out, _by_channel(b, bias, shape, dtype))
    statistics = (b.view(each, shape[:2]) for each in (mean, scale))  # for the gradient alone, which is the better for not rounding them
    return b.convert(b.view(out, list(x.sizes)), x.dtype), *statistics


@decomposes(aten.native_group_norm_backward.default)
def group_norm_backward(
    b: B,
    gradient: Value,
    x: Value,
    mean: Value,
    scale: Value,
    weight: Value | None,
    batch: Any,
    channels: Any,
    spatial: Any,
    groups: int,
    mask: Sequence[bool],
) -> Any:
    if not _can_be_grouped(x, groups, weight):
        return NotImplemented
    shape, dtype = _grouped_shape(x, groups), wide(x.dtype)
    wide_gradient = b.view(b.convert(_contiguous(b, gradient), dtype), shape)
    mean, scale = (b.view(b.convert(each, dtype), [*shape[:2], 1, 1]) for each in (mean, scale))
    normal = b.mul(b.sub(b.view(b.convert(x, dtype), shape), mean), scale)
    # By channels first, of which groups are then made: all else is small.
    total, aligned = b.sum(wide_gradient, [3], True), b.sum(b.mul(wide_gradient, normal), [3], True)
    to_x = to_weight = to_bias = None
    if mask[0]:
        parameter = None if weight is None else _by_channel(b, weight, shape, dtype)
        weighted, *sums = (each if parameter is None else b.mul(each, parameter) for each in (wide_gradient, total, aligned))
        sums = [b.sum(each, [2], True) for each in sums]
        to_x = b.view(_to_normalized(b, weighted, normal, scale, *sums, shape[2] * shape[3]), list(x.sizes))
    kept = x.dtype if weight is None else weight.dtype
    if mask[1]:
        to_weight = b.convert(b.view(b.sum(aligned, [0]), [x.sizes[1]]), kept)
    if mask[2]:
        to_bias = b.convert(b.view(b.sum(total, [0]), [x.sizes[1]]), kept)
    return None if to_x is None else b.convert(to_x, x.dtype), to_weight, to_bias


def _can_be_grouped(x: Value, groups: int, *parameters: Value | None) -> bool:
    """A contiguous image of as many channels as the parameters have, which the groups divide. Eager raises where they do not, and
    lets channels last lie so on a CPU. There its kernels for half types are faster than what is made of these steps."""
    if x.device.type == "cpu" and x.dtype.itemsize < 4:
        return False
    if not x.layout.element_count or not same(x.strides, contiguous_strides(x.sizes)) or x.sizes[1] % groups:
        return False
    return all(each.rank == 1 and each.sizes[0] == x.sizes[1] for each in parameters if each is not None)


def _grouped_shape(x: Value, groups: int) -> list[Any]:
    """(batch, groups, channels of a group, elements of a channel)"""
    return [x.sizes[0], groups, x.sizes[1] // groups, product(x.sizes[2:])]


def _by_channel(b: B, parameter: Value, shape: Sequence[Any], dtype: torch.dtype) -> Value:
    return b.view(b.convert(parameter, dtype), [1, *shape[1:3], 1])


def _to_normalized(b: B, gradient: Value, normal: Value, scale: Value, total: Value, aligned: Value, count: Any) -> Value:
    """The gradient of what was normalized, in rows of `count` elements, given that of `normal`, (x - mean) * scale, and the sums over
    a row of it and of its products with `normal`."""
    centred = b.sub(b.sub(b.mul(gradient, count), total), b.mul(normal, aligned))
    return b.mul(b.div(scale, count), centred)


@decomposes(aten.nll_loss_forward.default, aten.nll_loss2d_forward.default)
def nll_loss(b: B, x: Value, target: Value, weight: Value | None, reduction: int, ignored: int) -> Any:
    """Summed up in the wide type, as on a GPU: so is what a CPU's kernel adds up in the half types themselves, less exactly."""
    if weight is not None or x.rank not in (1, 2, 4) or not x.dtype.is_floating_point:
        return NotImplemented
    valid, among = b.compare("ne", target, ignored), _classes_of(x)
    position = b.where(valid, target, b.full([], 0, like=target))
    zero = b.full([], 0, like=x)
    picked = b.gather(x, among, b.unsqueeze(position, among))
    picked.step.reader = "target"
    losses = b.where(valid, b.neg(b.squeeze(picked, [among])), zero)
    if reduction == 0 and x.rank > 1:
        return losses, zero
    everything, dtype = list(range(losses.rank)), wide(x.dtype)
    count = b.convert(b.sum(b.convert(valid, torch.int64), everything), dtype)
    losses = b.convert(losses, dtype)
    total = b.sum(losses, everything) if everything else losses
    return b.convert(b.div(total, count) if reduction == 1 else total, x.dtype), b.convert(count, x.dtype)


def _classes_of(x: Value) -> int:
    """The dimension of the classes: of images it is the second one."""
    return min(1, x.rank - 1)


@decomposes(aten.nll_loss_backward.default, aten.nll_loss2d_backward.default)
def nll_loss_backward(
    b: B, gradient: Value, x: Value, target: Value, weight: Value | None, reduction: int, ignored: int, count: Value
) -> Any:
    if weight is not None or x.rank not in (1, 2, 4) or not x.dtype.is_floating_point:
        return NotImplemented
    if reduction == 1:
        gradient = b.div(gradient, count)
    among = _classes_of(x)
    classes = b.op(aten.arange.start_step, 0, x.sizes[among], 1, dtype=target.dtype, device=x.device)
    classes = b.view(classes, [x.sizes[among], *([1] * (x.rank - 1 - among))])
    target = b.unsqueeze(target, among)
    gradient = b.unsqueeze(gradient, among) if gradient.rank else gradient
    chosen = b.logical_and(b.compare("eq", classes, target), b.compare("ne", target, ignored))
    return b.where(chosen, b.neg(gradient), b.full([], 0, like=x))


@decomposes(aten.embedding_dense_backward.default)
def embedding_backward(b: B, gradient: Value, indices: Value, count: int, padding: int, by_frequency: Any) -> Any:
    if by_frequency:
        return NotImplemented
    dtype, is_on_gpu = gradient.dtype, gradient.device.type == "cuda"
    if is_on_gpu:  # `index_put` rounds halves at each addition, the operator when all of a row is added up
        gradient = b.convert(gradient, wide(dtype))
    zeros = b.full([count, gradient.sizes[-1]], 0, like=gradient)
    if padding >= 0:
        is_token = b.compare("ne", indices, padding)
        gradient = b.where(b.unsqueeze(is_token, indices.rank), gradient, b.full([], 0, like=gradient))
        if is_on_gpu:
            indices = b.where(is_token, indices, _spread(b, indices, count))
    # Each was looked up in the forward pass: a GPU need not look once more for the least and the greatest.
    written = aten._unsafe_index_put.default if is_on_gpu else aten.index_put.default
    return b.convert(b.op(written, zeros, [indices], gradient, True), dtype)


def _spread(b: B, indices: Value, count: int) -> Value:
    """Places for the zeros that padding adds: as many as there are, because a GPU adds those of one place one after the other."""
    numbers = b.op(aten.arange.start_step, 0, indices.layout.element_count, 1, dtype=indices.dtype, device=indices.device)
    return b.view(b.op(aten.remainder.Scalar, numbers, count), indices.sizes)


def channel_shape(x: Value) -> list[int]:
    return [1, x.sizes[1], *([1] * (x.rank - 2))]


def batch_norm(b: B, x: Value, weight: Value | None, bias: Value | None, mean: Value, scale: Value) -> Value:
    """Normalised by channel; `mean` and `scale` have one element each channel."""
    shape, dtype = channel_shape(x), wide(x.dtype)
    out = b.mul(b.sub(b.convert(x, dtype), b.view(mean, shape)), b.view(scale, shape))
    out = out if weight is None else b.mul(out, b.view(b.convert(weight, dtype), shape))
    out = out if bias is None else b.add(out, b.view(b.convert(bias, dtype), shape))
    return b.convert(out, x.dtype)


@decomposes(aten.native_batch_norm_backward.default)
def batch_norm_backward(
    b: B,
    gradient: Value,
    x: Value,
    weight: Value | None,
    running_mean: Value | None,
    running_variance: Value | None,
    saved_mean: Value | None,
    saved_scale: Value | None,
    training: Any,
    epsilon: float,
    mask: Sequence[bool],
) -> Any:
    dtype, shape = wide(x.dtype), channel_shape(x)
    others = [d for d in range(x.rank) if d != 1]
    if training:
        mean, scale = saved_mean, saved_scale
    else:
        mean = b.convert(running_mean, dtype)  # type: ignore[arg-type]
        scale = b.rsqrt(b.add(b.convert(running_variance, dtype), epsilon))  # type: ignore[arg-type]
    count = x.layout.element_count // max(x.sizes[1], 1)
    wide_gradient = b.convert(gradient, dtype)
    centred = b.sub(b.convert(x, dtype), b.view(b.convert(mean, dtype), shape))  # type: ignore[arg-type]
    total = b.sum(wide_gradient, others)
    aligned = b.sum(b.mul(wide_gradient, centred), others)
    scale = b.convert(scale, dtype)  # type: ignore[arg-type]
    factor = scale if weight is None else b.mul(scale, b.convert(weight, dtype))
    to_x = wide_gradient
    if training:
        projected = b.mul(b.mul(aligned, 1.0 / count), b.mul(scale, scale))
        to_x = b.sub(
            b.sub(wide_gradient, b.mul(centred, b.view(projected, shape))), b.view(b.mul(total, 1.0 / count), shape)
        )
    to_x = b.convert(b.mul(to_x, b.view(factor, shape)), x.dtype)
    to_weight = b.convert(b.mul(aligned, scale), weight.dtype if weight is not None else x.dtype)
    return (
        to_x if mask[0] else None,
        to_weight if mask[1] else None,
        b.convert(total, weight.dtype if weight is not None else x.dtype) if mask[2] else None,
    )
