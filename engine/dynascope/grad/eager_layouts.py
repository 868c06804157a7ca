"""Layouts of eager's own kernels where torch's meta kernels, or a decomposition, would say otherwise.

    masked_fill(x f32[5, 5] with strides (1, 5), mask, 0)  ->  strides (5, 1)

Found by running torch's operator database on the CPU and comparing each ATen call's real results with what was predicted
(`tests/grad/layouts_of_operators.py`). Strides of decomposed operators are put right after the decomposition.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from dynascope.grad.metadata import Rule, layouts_by_torch, overloads, rule
from dynascope.grad.shapes import broadcast, floating, fresh, iterator_strides, promoted
from dynascope.grad.tape import META, Layout, Value, contiguous_strides
from dynascope.grad.views import Builder, with_strides

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
        return result
    layouts = known(*arguments, **keywords)
    if isinstance(result, Value):
        return with_strides(builder, result, (layouts[0] if isinstance(layouts, list) else layouts).strides)
    pairs = zip(result, layouts, strict=True)
    return tuple(
        with_strides(builder, value, layout.strides) if value is not None and value.sizes == layout.sizes else value
        for value, layout in pairs
    )


@eager_layout(aten.masked_fill.Scalar, aten.masked_fill.Tensor)
def _masked_fill(a: Value, mask: Value, _: Any) -> Layout:
    return fresh(broadcast(a.sizes, mask.sizes), a.dtype, a.device)


@eager_layout(aten.pow.Scalar)
def _power_of_number(base: Any, exponent: Value) -> Layout:
    return fresh(exponent.sizes, promoted((base, exponent)), exponent.device)


@eager_layout(aten.copysign.Tensor)
def _copysign(a: Value, b: Value) -> Layout:
    sizes = broadcast(a.sizes, b.sizes)
    device = a.device if a.sizes or a.device.type != "cpu" else b.device
    return Layout(sizes, iterator_strides(sizes, [a, b]), floating(promoted((a, b))), device)


@eager_layout(*overloads("scatter.src scatter.value scatter_add index_add normal.Tensor_Tensor"))
def _contiguous_like_first(a: Value, *_: Any, **__: Any) -> Layout:
    return fresh(a.sizes, a.dtype, a.device)


@eager_layout(*overloads("mse_loss_backward smooth_l1_loss_backward huber_loss_backward nll_loss_backward"))
def _loss_backward(gradient: Value, a: Value, *_: Any, **__: Any) -> Layout:
    return fresh(a.sizes, a.dtype, a.device)


@rule(aten.log_sigmoid_forward.default)
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
    strides = suggested_strides(a) if on_cpu else iterator_strides(a.sizes, [a])
    given = next((value for value in (weight, bias, mean) if value is not None), a)
    wide = torch.float32 if a.dtype in (torch.float16, torch.bfloat16) else a.dtype
    saved = fresh((a.sizes[1] if training or not on_cpu else 0,), given.dtype if on_cpu else wide, a.device)
    return [Layout(a.sizes, strides, a.dtype, a.device), saved, saved]


def suggested_strides(a: Value, sizes: tuple[int, ...] | None = None) -> tuple[int, ...]:
    """Strides of a new tensor in the memory format that ATen suggests for `a`."""
    sizes = a.sizes if sizes is None else sizes
    like = {4: torch.channels_last, 5: torch.channels_last_3d}.get(a.rank)
    if like is None or not _looks_channels_last(a):
        return contiguous_strides(sizes)
    return torch.empty(sizes, device=META, memory_format=like).stride()


def _looks_channels_last(a: Value) -> bool:
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
    **dict.fromkeys(overloads("replication_pad2d pixel_shuffle channel_shuffle max_unpool2d"), 0),
    **dict.fromkeys(overloads("replication_pad2d_backward"), 1),
}.items():
    _in_suggested_format(_target, _position)
