"""Sizes and strides of what goes over windows, and of indices of triangles: rules, because a size that is a quotient of a number
that varies cannot be read off a few values.

    avg_pool2d(f32[2, 3, 24, 24], [n, n])  ->  f32[2, 3, (24 - n) // n + 1, (24 - n) // n + 1]
"""

from __future__ import annotations

from typing import Any

import torch

from dynascope.grad.eager_layouts import suggested_strides
from dynascope.grad.metadata import layouts_by_torch, rule
from dynascope.grad.shapes import ShapeMismatch, fresh
from dynascope.grad.tape import Layout, Value, sizes_in

aten = torch.ops.aten


def _windows(a: Value, kernel: Any, stride: Any, padding: Any, dilation: Any) -> list[Any]:
    """How many there are in the last two dimensions, of a pooling: it takes no window that lies outside."""
    for width, pad in zip(_pair(kernel), _pair(padding), strict=True):
        if pad * 2 > width:  # the kernels ask no more of dilated windows
            raise ShapeMismatch(f"windows of {width} with {pad} around")
    return _counts(a.sizes[-2:], kernel, stride or kernel, padding, dilation)


def _pair(numbers: Any) -> list[Any]:
    return list(numbers) * 2 if len(numbers) == 1 else list(numbers)


def _counts(sizes: Any, kernel: Any, stride: Any, padding: Any, dilation: Any) -> list[Any]:
    each = zip(_pair(sizes), _pair(kernel), _pair(stride), _pair(padding), _pair(dilation), strict=True)
    counts = []
    for size, width, step, pad, spread in each:
        if min(width, step, spread) < 1 or pad < 0:
            raise ShapeMismatch(f"windows of {width} by steps of {step} with {pad} around")
        count = (size + 2 * pad - spread * (width - 1) - 1) // step + 1
        if count < 1:
            raise ShapeMismatch(f"windows of {width} do not fit into {size}")
        counts.append(count)
    return counts


def _pooled(a: Value, counts: list[Any]) -> Layout:
    sizes = (*a.sizes[:-2], *counts)
    return Layout(sizes, suggested_strides(a, sizes), a.dtype, a.device)


def _is_simple(a: Any, data: Any, ceil: Any) -> bool:
    """Whether a rule is needed, and the one here is right: torch's kernel says what rounding up and no elements mean."""
    return not ceil and a.rank in (3, 4) and next(sizes_in((a, data)), None) is not None


@rule(aten.avg_pool2d.default)
def _average(
    a: Value, kernel: Any, stride: Any = (), padding: Any = (0,), ceil: Any = False, whole: Any = True, divisor: Any = None
) -> Any:
    if not _is_simple(a, (kernel, stride, padding), ceil):
        return layouts_by_torch(aten.avg_pool2d.default, (a, kernel, stride, padding, ceil, whole, divisor), {})
    return _pooled(a, _windows(a, kernel, stride, padding, (1,)))


@rule(aten.max_pool2d_with_indices.default)
def _largest(
    a: Value, kernel: Any, stride: Any = (), padding: Any = (0,), dilation: Any = (1,), ceil: Any = False
) -> list[Any]:
    if not _is_simple(a, (kernel, stride, padding, dilation), ceil):
        operator = aten.max_pool2d_with_indices.default
        return layouts_by_torch(operator, (a, kernel, stride, padding, dilation, ceil), {})
    layout = _pooled(a, _windows(a, kernel, stride, padding, dilation))
    return [layout, Layout(layout.sizes, layout.strides, torch.int64, a.device)]


@rule(aten.avg_pool2d_backward.default, aten.max_pool2d_with_indices_backward.default)
def _of_pooled(gradient: Value, a: Value, *_: Any) -> Layout:
    return Layout(a.sizes, suggested_strides(a), a.dtype, a.device)


@rule(aten.im2col.default)
def _columns(a: Value, kernel: Any, dilation: Any, padding: Any, stride: Any) -> Any:
    """`f32[(batch,) channels, height, width] -> f32[(batch,) channels * window, windows]`."""
    if not _is_simple(a, (kernel, dilation, padding, stride), ceil=False):
        return layouts_by_torch(aten.im2col.default, (a, kernel, dilation, padding, stride), {})
    down, along = _counts(a.sizes[-2:], kernel, stride, padding, dilation)
    return fresh((*a.sizes[:-3], a.sizes[-3] * _elements(kernel), down * along), a.dtype, a.device)


@rule(aten.col2im.default)
def _of_columns(a: Value, sizes: Any, kernel: Any, dilation: Any, padding: Any, stride: Any) -> Any:
    """`f32[(batch,) channels * window, windows] -> f32[(batch,) channels, *sizes]`."""
    varies = next(sizes_in((a, (sizes, kernel, dilation, padding, stride))), None) is not None
    if not varies or a.rank not in (2, 3):
        return layouts_by_torch(aten.col2im.default, (a, sizes, kernel, dilation, padding, stride), {})
    down, along = _counts(sizes, kernel, stride, padding, dilation)
    if a.sizes[-2] % _elements(kernel) != 0 or a.sizes[-1] != down * along:
        raise ShapeMismatch(f"columns of {a.sizes} are not those of {down} by {along} windows")
    return fresh((*a.sizes[:-2], a.sizes[-2] // _elements(kernel), *_pair(sizes)), a.dtype, a.device)


def _elements(kernel: Any) -> Any:
    down, along = _pair(kernel)
    return down * along


@rule(aten.tril_indices.default)
def _lower_triangle(rows: Any, columns: Any, offset: Any = 0, *, dtype: Any = None, device: Any = None, **_: Any) -> Layout:
    return _triangle(_in_lower(rows, columns, offset), dtype, device)


@rule(aten.triu_indices.default)
def _upper_triangle(rows: Any, columns: Any, offset: Any = 0, *, dtype: Any = None, device: Any = None, **_: Any) -> Layout:
    return _triangle(rows * columns - _in_lower(rows, columns, offset - 1), dtype, device)


def _triangle(count: Any, dtype: Any, device: Any) -> Layout:
    return fresh((2, count), dtype or torch.int64, torch.device(device or "cpu"))


def _in_lower(rows: Any, columns: Any, offset: Any) -> Any:
    """How many elements of a matrix are on the diagonal that is `offset` to the right of the main one, or below: rows without any
    come first, then rows with one more each, then full ones."""
    if rows < 0 or columns < 0:
        raise ShapeMismatch("a matrix of fewer than no rows")
    if rows == 0 or columns == 0:
        return 0
    empty = min(max(-offset, 0), rows)
    full = min(max(rows - max(columns - 1 - offset, 0), 0), rows)
    growing = rows - empty - full
    return growing * (empty + 1 + offset) + growing * (growing - 1) // 2 + full * columns
