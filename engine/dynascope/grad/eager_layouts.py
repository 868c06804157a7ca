"""Layouts of eager's own kernels where torch's meta kernels, or a decomposition, would say otherwise.

    masked_fill(x f32[5, 5] with strides (1, 5), mask, 0)  ->  strides (5, 1)

Found by running torch's operator database on the CPU and comparing each ATen call's real results with what was predicted
(`tests/grad/layouts_of_operators.py`). Strides of decomposed operators are put right after the decomposition.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch

from dynascope.grad.metadata import Rule, common_device, joined, kept_strides, layouts_by_torch, overloads, rule
from dynascope.grad.shapes import (
    as_promoted,
    broadcast,
    channels_last_strides,
    expanded_strides,
    floating,
    fresh,
    iterator_strides,
    promoted,
)
from dynascope.grad.tape import Layout, Value, contiguous_strides, has_sizes, leaves
from dynascope.grad.views import Builder, with_strides
from dynascope.sizes import hints_of, same

aten = torch.ops.aten
LAYOUTS: dict[Any, Rule] = {}


def eager_layout(*targets: Any) -> Callable[[Rule], Rule]:
    def register(function: Rule) -> Rule:
        LAYOUTS.update(dict.fromkeys(targets, function))
        return rule(*targets)(function)

    return register


def laid_out_as_eager(builder: Builder, target: Any, result: Any, arguments: Any, keywords: Any) -> Any:
    """The result of the decomposition of `target`, with the strides that its own kernel would give."""
    known = LAYOUTS.get(target)
    if known is None:
        is_pointwise = isinstance(result, Value) and torch.Tag.pointwise in target.tags
        return _as_iterated(builder, result, arguments, keywords) if is_pointwise else result
    layouts = known(*arguments, **keywords)
    if isinstance(result, Value):
        return with_strides(builder, result, (layouts[0] if isinstance(layouts, list) else layouts).strides)
    pairs = zip(result, layouts, strict=True)
    return tuple(
        with_strides(builder, value, layout.strides) if value is not None and value.sizes == layout.sizes else value
        for value, layout in pairs
    )


def _as_iterated(builder: Builder, result: Value, arguments: Any, keywords: Any) -> Value:
    """What a decomposition put together of several operators, laid out as the one kernel lays it out from its operands."""
    operands = [leaf for leaf in leaves((arguments, keywords)) if isinstance(leaf, Value)]
    if broadcast(*(operand.sizes for operand in operands)) != result.sizes:
        return result
    return with_strides(builder, result, iterator_strides(result.sizes, operands))


@eager_layout(aten.masked_fill.Scalar, aten.masked_fill.Tensor)
def _masked_fill(a: Value, mask: Value, _: Any) -> Layout:
    return fresh(broadcast(a.sizes, mask.sizes), a.dtype, a.device)


@eager_layout(*overloads("isin.Tensor_Tensor isin.Tensor_Scalar"))
def _is_among(elements: Value, *_: Any, **__: Any) -> Layout:
    return fresh(elements.sizes, torch.bool, elements.device)


@eager_layout(aten.pow.Scalar)
def _power_of_number(base: Any, exponent: Value) -> Layout:
    return fresh(exponent.sizes, promoted((base, exponent)), exponent.device)


@eager_layout(aten.copysign.Tensor)
def _copysign(a: Value, b: Value) -> Layout:
    sizes = broadcast(a.sizes, b.sizes)
    device = a.device if a.sizes or a.device.type != "cpu" else b.device
    dtype = floating(promoted((a, b)))
    return Layout(sizes, iterator_strides(sizes, as_promoted((a, b), dtype)), dtype, device)


@eager_layout(*overloads("mvlgamma"))
def _multivariate_log_gamma(a: Value, _: int) -> Layout:
    return fresh(a.sizes, floating(a.dtype), a.device)


@eager_layout(*overloads("normal.Tensor_Tensor"))
def _normal(mean: Value, deviation: Value, **_: Any) -> Layout:
    return fresh(broadcast(mean.sizes, deviation.sizes), mean.dtype, mean.device)


@rule(*overloads("normal.float_Tensor"))
def _normal_by_deviation(mean: float, deviation: Value, **_: Any) -> Layout:
    return fresh(deviation.sizes, deviation.dtype, deviation.device)


@eager_layout(aten.rsub.Scalar, aten.rsub.Tensor)
def _subtracted_from(a: Any, b: Any, *_: Any, **__: Any) -> Layout:
    values = [operand for operand in (b, a) if isinstance(operand, Value)]
    sizes = broadcast(*(value.sizes for value in values))
    return Layout(sizes, iterator_strides(sizes, (b, a)), promoted((a, b)), common_device(values))


@rule(*overloads("rrelu_with_noise_functional"))
def _rrelu(a: Value, noise: Value, *_: Any, **__: Any) -> list[Layout]:
    return [replace(a.layout, strides=contiguous_strides(a.sizes)), noise.layout]


@rule(*overloads("poisson _standard_gamma"))
def _sampled(a: Value, *_: Any, **__: Any) -> Layout:
    """CUDA's kernels iterate, the CPU's fill a new tensor."""
    strides = contiguous_strides(a.sizes) if a.device.type == "cpu" else iterator_strides(a.sizes, [a])
    return Layout(a.sizes, strides, a.dtype, a.device)


@eager_layout(*overloads("binary_cross_entropy"))
def _binary_cross_entropy(a: Value, target: Value, weight: Value | None = None, reduction: int = 1) -> Layout:
    if reduction:
        return fresh((), a.dtype, a.device)
    return Layout(a.sizes, kept_strides(a, None), a.dtype, a.device)


@eager_layout(aten.glu_backward.default)
def _glu_backward(gradient: Value, a: Value, _: int) -> Layout:
    return fresh(a.sizes, a.dtype, a.device)


@eager_layout(*overloads("index_fill.int_Scalar index_fill.int_Tensor"))
def _index_fill(a: Value, *_: Any) -> Layout:
    return Layout(a.sizes, kept_strides(a, None), a.dtype, a.device)


@eager_layout(*overloads("scatter.src scatter.value scatter_add index_add"))
def _contiguous_like_first(a: Value, *_: Any, **__: Any) -> Layout:
    return fresh(a.sizes, a.dtype, a.device)


@eager_layout(*overloads("mse_loss_backward smooth_l1_loss_backward huber_loss_backward nll_loss_backward"))
def _loss_backward(gradient: Value, a: Value, *_: Any, **__: Any) -> Layout:
    return fresh(a.sizes, a.dtype, a.device)


@eager_layout(*overloads("hardtanh_backward hardswish_backward hardsigmoid_backward elu_backward softplus_backward"))
def _activation_backward(*operands: Any) -> Layout:
    gradient, a = (operand for operand in operands if isinstance(operand, Value))
    return Layout(a.sizes, iterator_strides(a.sizes, [gradient, a]), gradient.dtype, gradient.device)


@eager_layout(*overloads("threshold_backward"))
def _threshold_backward(gradient: Value, a: Value, *_: Any) -> Layout:
    return Layout(a.sizes, iterator_strides(a.sizes, [a, gradient]), gradient.dtype, gradient.device)


@eager_layout(*overloads("binary_cross_entropy_backward"))
def _binary_cross_entropy_backward(gradient: Value, a: Value, *_: Any) -> Layout:
    return Layout(a.sizes, kept_strides(a, None), a.dtype, a.device)


@eager_layout(aten.native_dropout_backward.default)
def _dropout_backward(gradient: Value, mask: Value, *_: Any) -> Layout:
    """A kernel of its own on a GPU, two products on the CPU."""
    on_gpu = gradient.device.type == "cuda"
    strides = suggested_strides(gradient) if on_gpu else iterator_strides(gradient.sizes, [gradient, mask])
    return Layout(gradient.sizes, strides, gradient.dtype, gradient.device)


@eager_layout(aten.log_sigmoid_forward.default)
def _log_sigmoid(a: Value) -> list[Layout | None]:
    if a.device.type == "cuda":
        layout = Layout(a.sizes, iterator_strides(a.sizes, [a]), a.dtype, a.device)
        return [layout, fresh((0,), a.dtype, a.device)]
    return [fresh(a.sizes, a.dtype, a.device)] * 2


@eager_layout(aten.native_batch_norm.default)
def _batch_norm(
    a: Value, weight: Value | None, bias: Value | None, mean: Value | None, variance: Any, training: bool, *_: Any
) -> list[Layout | None]:
    """What is saved has the parameters' type on the CPU, and outside training no elements."""
    on_cpu = a.device.type == "cpu"
    given = next((value for value in (weight, bias, mean) if value is not None), a)
    wide = torch.float32 if a.dtype in (torch.float16, torch.bfloat16) else a.dtype
    saved = fresh((a.sizes[1] if training or not on_cpu else 0,), given.dtype if on_cpu else wide, a.device)
    return [Layout(a.sizes, batch_norm_strides(a), a.dtype, a.device), saved, saved]


@eager_layout(*overloads("_native_batch_norm_legit.no_stats"))
def _batch_norm_without_statistics(
    a: Value, weight: Value | None, bias: Value | None, training: bool, *rest: Any
) -> Any:
    return _batch_norm(a, weight, bias, None, None, training, *rest)


@rule(aten._batch_norm_with_update_functional.default)
def _batch_norm_with_update(
    a: Value, weight: Value | None, bias: Value | None, mean: Value, variance: Value, *rest: Any
) -> list[Layout | None]:
    """Results, what is saved, what CUDA's libraries keep (here nothing), and the statistics as they are then."""
    if a.device.type != "cpu":
        return layouts_by_torch(
            aten._batch_norm_with_update_functional.default, (a, weight, bias, mean, variance, *rest), {}
        )
    normalized = _batch_norm(a, weight, bias, mean, variance, True)
    return [*normalized, fresh((0,), torch.uint8, a.device), mean.layout, variance.layout]


@rule(aten._native_batch_norm_legit_functional.default)
def _functional_batch_norm(
    a: Value, weight: Value | None, bias: Value | None, mean: Value, variance: Value, *rest: Any
) -> list[Layout | None]:
    return [*_batch_norm(a, weight, bias, mean, variance, *rest), mean.layout, variance.layout]


@rule(aten.native_layer_norm.default)
def _layer_norm(a: Value, sizes: Any, weight: Value | None, bias: Value | None, epsilon: float) -> list[Any]:
    layouts = layouts_by_torch(aten.native_layer_norm.default, (a, sizes, weight, bias, epsilon), {})
    return _with_statistics_of(weight if weight is not None else bias, a, layouts)


@rule(aten.native_group_norm.default)
def _group_norm(a: Value, weight: Value | None, bias: Value | None, *rest: Any) -> list[Any]:
    layouts = layouts_by_torch(aten.native_group_norm.default, (a, weight, bias, *rest), {})
    if a.device.type == "cpu":
        layouts[0] = replace(layouts[0], strides=suggested_strides(a))
    return _with_statistics_of(weight if weight is not None else bias, a, layouts)


def _with_statistics_of(parameter: Value | None, a: Value, layouts: list[Any]) -> list[Any]:
    """What is saved has the parameters' type on the CPU."""
    if a.device.type != "cpu":
        return layouts
    dtype = a.dtype if parameter is None else parameter.dtype
    return [layouts[0], *(replace(layout, dtype=dtype) for layout in layouts[1:])]


def batch_norm_strides(a: Value) -> tuple[int, ...]:
    return suggested_strides(a) if a.device.type == "cpu" else iterator_strides(a.sizes, [a])


@rule(aten.angle.default)
def _angle(a: Value) -> Layout:
    """Of complex numbers the result is a tensor that was there before the kernel saw its operand."""
    if a.dtype.is_complex:
        return fresh(a.sizes, a.dtype.to_real(), a.device)
    return Layout(a.sizes, iterator_strides(a.sizes, [a]), floating(a.dtype), a.device)


@rule(*overloads("nonzero_static"))
def _nonzero_static(a: Value, *, size: int, **_: Any) -> Layout:
    return fresh((size, a.rank), torch.int64, a.device)


@rule(*overloads("select_scatter slice_scatter diagonal_scatter as_strided_scatter"))
def _scatter_view(a: Value, *_: Any, **__: Any) -> Layout:
    """A copy of the operand, its holes too, with a part of it overwritten."""
    return Layout(a.sizes, with_holes(a.sizes, a.strides), a.dtype, a.device)


def with_holes(sizes: tuple[int, ...], strides: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of ATen's `clone_preserve_strides`: as they are, unless elements share places."""
    reach = 1
    for stride, size in sorted(
        ((stride, size) for stride, size in zip(strides, sizes, strict=True) if size > 1), key=hints_of
    ):
        if stride < reach:
            return contiguous_strides(sizes)
        reach = stride * size
    return strides


@rule(aten.cat.default)
def _cat(tensors: Sequence[Value], dimension: int = 0) -> Layout:
    """In the memory format that ATen suggests for all of the operands, else contiguous."""
    layout = joined(tensors, dimension)
    formats = {suggested_format(tensor) for tensor in tensors}
    if len(formats) == 1 and None not in formats:
        return replace(layout, strides=_strides_in(layout.sizes, formats.pop()))
    return layout


@eager_layout(aten.roll.default)
def _roll(a: Value, shifts: Sequence[int], dimensions: Sequence[int] = ()) -> Layout:
    """On the CPU a roll along a dimension joins two parts, and one along several is one after the other."""
    if 0 in a.sizes and len(dimensions) == 1:
        return Layout(a.sizes, kept_strides(a, None), a.dtype, a.device)
    is_in_a_row = has_sizes((shifts, a)) and same(a.strides, contiguous_strides(a.sizes))  # whatever the numbers are
    if a.device.type != "cpu" or not dimensions or is_in_a_row:
        return fresh(a.sizes, a.dtype, a.device)
    for shift, dimension in zip(shifts, dimensions, strict=True):
        size = a.sizes[dimension]
        first = -shift % size
        parts = [_part(a, dimension % a.rank, size - first), _part(a, dimension % a.rank, first)]
        a = Value(replace(_cat(parts, dimension), sizes=a.sizes))
    return a.layout


def _part(a: Value, dimension: int, length: int) -> Value:
    sizes = (*a.sizes[:dimension], length, *a.sizes[dimension + 1 :])
    return Value(Layout(sizes, a.strides, a.dtype, a.device))


def suggested_strides(a: Value, sizes: tuple[int, ...] | None = None) -> tuple[int, ...]:
    """Strides of a new tensor in the memory format that ATen suggests for `a`."""
    return _strides_in(a.sizes if sizes is None else sizes, suggested_format(a))


def suggested_format(a: Value) -> torch.memory_format | None:
    like = {4: torch.channels_last, 5: torch.channels_last_3d}.get(a.rank)
    return like if like is not None and looks_channels_last(a) else None


def _strides_in(sizes: tuple[int, ...], like: torch.memory_format | None) -> tuple[int, ...]:
    return contiguous_strides(sizes) if like is None else channels_last_strides(sizes)


def looks_channels_last(a: Value) -> bool:
    """Whether strides grow from the channels over the last dimension to the first, as ATen decides it."""
    least = 0
    if a.strides[1] == 0:
        return False
    for dimension in (1, *reversed(range(2, a.rank)), 0):
        size, stride = a.sizes[dimension], a.strides[dimension]
        if size == 0 or stride < least or (dimension == 0 and least == a.strides[1]):
            return False
        least = stride * max(size, 1)
    return True


def _by_meta(target: Any, *arguments: Any) -> Layout:
    (layout,) = layouts_by_torch(target, arguments, {})
    assert layout is not None
    return layout


def _in_suggested_format(target: Any, position: int) -> None:
    """On the CPU the result lies in the memory format of operand `position`."""

    def predict(*arguments: Any) -> Layout:
        layout = _by_meta(target, *arguments)
        if layout.device.type != "cpu":
            return layout
        strides = suggested_strides(arguments[position], layout.sizes)
        return Layout(layout.sizes, strides, layout.dtype, layout.device)

    rule(target)(predict)


for _target, _position in {
    **dict.fromkeys(overloads("replication_pad2d replication_pad3d reflection_pad2d reflection_pad3d"), 0),
    **dict.fromkeys(overloads("pixel_shuffle channel_shuffle max_unpool2d"), 0),
    **dict.fromkeys(overloads("replication_pad2d_backward replication_pad3d_backward"), 1),
    **dict.fromkeys(overloads("reflection_pad2d_backward reflection_pad3d_backward"), 1),
}.items():
    _in_suggested_format(_target, _position)


@rule(*overloads("index.Tensor _unsafe_index.Tensor"))
def _index(a: Value, indices: Sequence[Value | None]) -> Layout | list[Layout | int | None]:
    """Iterated over the source, which does not move along the indexed dimensions, and over the indices, which move along no others."""
    given = [dimension for dimension, index in enumerate(indices) if index is not None]
    tensors = [index for index in indices if index is not None]
    if not given or any(index.dtype in (torch.bool, torch.uint8) for index in tensors):
        return layouts_by_torch(aten.index.Tensor, (a, indices), {})
    shape = broadcast(*(index.sizes for index in tensors))
    have_gaps = given[-1] - given[0] + 1 != len(given)
    before = [] if have_gaps else list(range(given[0]))
    after = [d for d in range(a.rank) if d not in before and d not in given]
    sizes = (*(a.sizes[d] for d in before), *shape, *(a.sizes[d] for d in after))
    source = (*(a.strides[d] for d in before), *(0 for _ in shape), *(a.strides[d] for d in after))
    steps = [expanded_strides(index, shape) for index in tensors]
    if a.device.type != "cpu" and len(set(map(hints_of, steps))) > 1:
        steps = [contiguous_strides(shape)] * len(steps)
    operands = [Value(Layout(sizes, source, a.dtype, a.device))]
    for each in steps:
        among = (*(1 for _ in before), *shape, *(1 for _ in after))
        operands.append(Value(Layout(among, _among_ones(shape, each, len(before), len(after)), torch.int64, a.device)))
    return Layout(sizes, iterator_strides(sizes, operands), a.dtype, a.device)


def _among_ones(shape: Any, strides: Any, before: int, after: int) -> tuple[Any, ...]:
    """Strides of an index that is viewed with dimensions of one element around its own: they count where the source has one there."""
    sizes = hints_of(tuple(shape))
    index = torch.empty_strided(sizes, hints_of(tuple(strides)), device="meta")
    own = index.view((1,) * before + sizes + (1,) * after).stride()
    return (*own[:before], *strides, *own[len(own) - after :])
