"""Tensors made from nothing or in the likeness of another: all are `full`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from dynascope.grad.build import StepBuilder as B
from dynascope.grad.metadata import kept_strides, output_layouts
from dynascope.grad.shapes import is_dense, promoted
from dynascope.grad.tape import Value
from dynascope.grad.views import restrided, with_strides

aten = torch.ops.aten


UNWRITTEN = object()
"""In the place of a number: what memory holds that was never written."""


def _filled(b: B, sizes: Sequence[Any], number: Any, dtype: torch.dtype, device: Any) -> Value:
    number = _unwritten(dtype) if number is UNWRITTEN else number
    return b.op(aten.full.default, list(sizes), number, dtype=dtype, device=torch.device(device))


def _unwritten(dtype: torch.dtype) -> Any:
    """Anything: zeros are the same every time. Where torch is to be deterministic it says what: NaN, and the largest integer."""
    if not torch.are_deterministic_algorithms_enabled() or not torch.utils.deterministic.fill_uninitialized_memory:  # type: ignore[attr-defined]
        return 0
    return math.nan if dtype.is_floating_point or dtype.is_complex else True if dtype is torch.bool else torch.iinfo(dtype).max


def _like(number: Any) -> Callable[..., Value]:
    def make(b: B, x: Value, *, dtype: Any = None, device: Any = None, memory_format: Any = None, **_: Any) -> Value:
        made = _filled(b, x.sizes, number, dtype or x.dtype, device or x.device)
        strides = kept_strides(x, memory_format)
        return restrided(b, with_strides(b, made, strides), x.sizes, strides)

    return make


def _full_like(b: B, x: Value, number: Any, **keywords: Any) -> Value:
    return _like(number)(b, x, **keywords)


def _sized(number: Any) -> Callable[..., Value]:
    def make(b: B, sizes: Sequence[int], *, dtype: Any = None, device: Any = None, **_: Any) -> Value:
        return _filled(b, sizes, number, dtype or torch.get_default_dtype(), device or "cpu")

    return make


def _new(number: Any) -> Callable[..., Value]:
    def make(b: B, x: Value, sizes: Sequence[int], *, dtype: Any = None, device: Any = None, **_: Any) -> Value:
        return _filled(b, sizes, number, dtype or x.dtype, device or x.device)

    return make


def _new_full(b: B, x: Value, sizes: Sequence[int], number: Any, **keywords: Any) -> Value:
    return _new(number)(b, x, sizes, **keywords)


def _full(b: B, sizes: Sequence[int], number: Any, *, dtype: Any = None, device: Any = None, **rest: Any) -> Any:
    """Dtype and device written out, so that nothing depends on the defaults of the day the graph runs."""
    if dtype is not None and device is not None and not rest:
        return NotImplemented
    return b.op(
        aten.full.default, list(sizes), number, dtype=dtype or promoted((number,)), device=torch.device(device or "cpu")
    )


def _scalar_tensor(b: B, number: Any, *, dtype: Any = None, device: Any = None, **_: Any) -> Value:
    dtype = dtype or torch.get_default_dtype()
    return b.op(aten.full.default, [], number, dtype=dtype, device=torch.device(device or "cpu"))


def _new_empty_strided(
    b: B, x: Value, sizes: Any, strides: Any, *, dtype: Any = None, device: Any = None, **_: Any
) -> Any:
    return b.op(aten.empty_strided.default, sizes, strides, dtype=dtype or x.dtype, device=device or x.device)


def _by_layout(operator: Any) -> Callable[..., Any]:
    """Memory of given strides: `full`, laid out so."""

    def make(
        b: B, sizes: Sequence[int], places: Sequence[int], *, dtype: Any = None, device: Any = None, **_: Any
    ) -> Any:
        (layout,) = output_layouts(operator, (sizes, places), {"dtype": dtype, "device": device})
        if layout is None or not is_dense(layout.sizes, layout.strides):
            return NotImplemented
        return with_strides(b, _filled(b, sizes, UNWRITTEN, layout.dtype, layout.device), layout.strides)

    return make


TABLE: dict[Any, Callable[..., Any]] = {
    aten.zeros_like.default: _like(0),
    aten.ones_like.default: _like(1),
    aten.full_like.default: _full_like,
    aten.empty_like.default: _like(UNWRITTEN),
    aten.zeros.default: _sized(0),
    aten._efficientzerotensor.default: _sized(0),
    aten.ones.default: _sized(1),
    aten.empty.memory_format: _sized(UNWRITTEN),
    aten.new_zeros.default: _new(0),
    aten.new_ones.default: _new(1),
    aten.empty_strided.default: _by_layout(aten.empty_strided.default),
    aten.empty_permuted.default: _by_layout(aten.empty_permuted.default),
    aten.new_empty.default: _new(UNWRITTEN),
    aten.new_full.default: _new_full,
    aten.new_empty_strided.default: _new_empty_strided,
    aten.full.default: _full,
    aten.scalar_tensor.default: _scalar_tensor,
}
