"""Sizes and strides of convolutions. On the CPU the library that torch would choose decides the memory format: torch is asked
which, with operands that have no memory yet.

    convolution(f32[2, 3, 8, 8], f32[5, 3, 3, 3] channels-last, ...)  ->  f32[2, 5, 6, 6] channels-last where MKL-DNN runs it
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from dynascope.grad.eager_layouts import looks_channels_last
from dynascope.grad.metadata import rule
from dynascope.grad.reasons import DifferentiationRefused, VaryingNumberNeeded
from dynascope.grad.shapes import ShapeMismatch, channels_last_strides, fresh
from dynascope.grad.tape import Layout, Value, contiguous_strides, names_of, numbers_at, sizes_in
from dynascope.grad.unread_tensors import unread

aten = torch.ops.aten


@rule(aten.convolution.default)
def _convolution(
    a: Value,
    weight: Value,
    bias: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: Any,
    extra: Any,
    groups: int,
) -> Layout:
    if a.rank != weight.rank or a.dtype != weight.dtype or a.rank < 3:
        raise ShapeMismatch(
            f"input {a.dtype}{list(a.sizes)} and weight {weight.dtype}{list(weight.sizes)} cannot be convolved"
        )
    inner = weight.sizes[0] if transposed else weight.sizes[1] * groups
    if inner != a.sizes[1]:
        raise ShapeMismatch(f"the input has {a.sizes[1]} channels, the weight {list(weight.sizes)} expects {inner}")
    each = lambda numbers: list(numbers) * (a.rank - 2) if len(numbers) == 1 else list(numbers)  # noqa: E731
    sizes = [a.sizes[0], weight.sizes[1] * groups if transposed else weight.sizes[0]]
    places = zip(a.sizes[2:], weight.sizes[2:], each(stride), each(padding), each(dilation), each(extra), strict=True)
    for size, kernel, step, pad, spread, more in places:
        reach = spread * (kernel - 1)
        sizes.append(
            (size - 1) * step - 2 * pad + reach + more + 1 if transposed else (size + 2 * pad - reach - 1) // step + 1
        )
    if a.sizes[1] == 0:
        sizes[1] = 0  # as torch says of no channels
    if any(size < 0 for size in sizes):
        raise ShapeMismatch(f"the kernel {list(weight.sizes)} is larger than the input {list(a.sizes)}")
    settings = (each(stride), each(padding), each(dilation), transposed, each(extra), groups)
    like = _format_at_all_sizes(a, weight, bias, settings)
    return Layout(tuple(sizes), _strides_in(like, tuple(sizes)), a.dtype, a.device)


def _format_at_all_sizes(a: Value, weight: Value, bias: Any, settings: tuple[Any, ...]) -> torch.memory_format | None:
    """Every library keeps to rows where no operand has channels last; else which one runs may change with the sizes: torch is asked
    at several."""
    seen = [_with_height(operand) if operand.rank == 3 else operand for operand in (a, weight)]
    if not any(operand.rank in (4, 5) and looks_channels_last(operand) for operand in seen):
        return None
    operands = a, weight, bias, settings
    varying = list(sizes_in(operands))
    if not varying:
        return _memory_format(*operands)
    worlds = varying[0].scope.worlds
    formats = {_memory_format(*numbers_at(operands, values)) for values in worlds.values} if worlds is not None else ()
    if len(formats) != 1:
        raise DifferentiationRefused(VaryingNumberNeeded("convolution", names_of(varying)))
    return formats.pop()


def _memory_format(a: Value, weight: Value, bias: Any, settings: tuple[Any, ...]) -> torch.memory_format | None:
    """Channels last or None, for a result seen with two dimensions or more: one is computed as two."""
    if a.rank == 3:
        a = _with_height(Value(fresh(a.sizes, a.dtype, a.device)))
        weight = _with_height(weight)
        settings = _with_height_settings(*settings)
    if a.device.type != "cpu" or a.rank not in (4, 5) or 0 in a.sizes:
        like = {4: torch.channels_last, 5: torch.channels_last_3d}.get(a.rank)
        if a.device.type == "cuda" and a.dtype is torch.float64:
            return None  # cuDNN's kernels of doubles are for rows
        return like if any(_is_channels_last(operand) for operand in (a, weight)) else None
    with _disable_current_modes(), torch.no_grad():
        x, w = (_without_contents(value) for value in (a, weight))
        b = _without_contents(bias) if isinstance(bias, Value) else None
        stride, padding, dilation, transposed, extra, groups = settings
        library = torch._C._select_conv_backend(
            x, w, b, stride, padding, dilation, transposed, extra, groups, None if b is None else list(b.shape)
        )
        like = torch._C._conv_determine_backend_memory_format(x, w, library)
    return None if like is torch.contiguous_format else like


def _without_contents(value: Value) -> torch.Tensor:
    return unread(value.sizes, value.strides, value.dtype, value.device)


def _with_height_settings(
    stride: list[int], padding: list[int], dilation: list[int], transposed: bool, extra: list[int], groups: int
) -> tuple[Any, ...]:
    return [1, *stride], [0, *padding], [1, *dilation], transposed, [0, *extra], groups


def _strides_in(like: torch.memory_format | None, sizes: tuple[int, ...]) -> tuple[int, ...]:
    if like is None:
        return contiguous_strides(sizes)
    if len(sizes) == 3:
        strides = channels_last_strides((*sizes[:2], 1, sizes[2]))
        return (*strides[:2], strides[3])
    return channels_last_strides(sizes)


def _with_height(value: Value) -> Value:
    (batch, channels, width), (a, b, c), layout = value.sizes, value.strides, value.layout
    return Value(Layout((batch, channels, 1, width), (a, b, width * c, c), layout.dtype, layout.device))


def _is_channels_last(value: Value) -> bool:
    if value.rank not in (4, 5) or value.strides == contiguous_strides(value.sizes) or value.strides[1] != 1:
        return False
    order = [0, *range(2, value.rank), 1]
    moved = tuple(value.sizes[d] for d in order)
    return tuple(value.strides[d] for d in order) == contiguous_strides(moved)


@rule(aten.convolution_backward.default)
def _convolution_backward(
    gradient: Value, a: Value, weight: Value, bias_sizes: Any, *arguments: Any
) -> list[Layout | None]:
    *settings, mask = arguments
    each = lambda numbers: list(numbers) * (a.rank - 2) if len(numbers) == 1 else list(numbers)  # noqa: E731
    stride, padding, dilation, transposed, extra, groups = settings
    like = _format_at_all_sizes(
        a, weight, None, (each(stride), each(padding), each(dilation), transposed, each(extra), groups)
    )
    make = lambda v: Layout(v.sizes, _strides_in(like, v.sizes), v.dtype, v.device)  # noqa: E731
    return [
        make(a) if mask[0] else None,
        make(weight) if mask[1] else None,
        fresh(bias_sizes or (weight.sizes[0],), weight.dtype, weight.device) if mask[2] else None,
    ]
