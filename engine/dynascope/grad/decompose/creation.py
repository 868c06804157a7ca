"""Tensors made from nothing or in the likeness of another: all are `full`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from dynascope.grad.build import StepBuilder as B
from dynascope.grad.metadata import kept_strides, output_layouts
from dynascope.grad.shapes import is_dense, promoted
from dynascope.grad.tape import Value
from dynascope.grad.views import restrided, with_strides

aten = torch.ops.aten


def _like(number: Any) -> Callable[..., Value]:
    def make(b: B, x: Value, *, dtype: Any = None, device: Any = None, memory_format: Any = None, **_: Any) -> Value:
        made = b.op(aten.full.default, list(x.sizes), number, dtype=dtype or x.dtype, device=device or x.device)
        strides = kept_strides(x, memory_format)
        return restrided(b, with_strides(b, made, strides), x.sizes, strides)

    return make


def _full_like(b: B, x: Value, number: Any, **keywords: Any) -> Value:
    return _like(number)(b, x, **keywords)


def _sized(number: Any) -> Callable[..., Value]:
    def make(b: B, sizes: Sequence[int], *, dtype: Any = None, device: Any = None, **_: Any) -> Value:
        dtype = dtype or torch.get_default_dtype()
        return b.op(aten.full.default, list(sizes), number, dtype=dtype, device=torch.device(device or "cpu"))

    return make


def _new(number: Any) -> Callable[..., Value]:
    def make(b: B, x: Value, sizes: Sequence[int], *, dtype: Any = None, device: Any = None, **_: Any) -> Value:
        return b.op(aten.full.default, list(sizes), number, dtype=dtype or x.dtype, device=device or x.device)

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
        return with_strides(
            b, b.op(aten.full.default, list(sizes), 0, dtype=layout.dtype, device=layout.device), layout.strides
        )

    return make


TABLE: dict[Any, Callable[..., Any]] = {
    aten.zeros_like.default: _like(0),
    aten.ones_like.default: _like(1),
    aten.full_like.default: _full_like,
    aten.empty_like.default: _like(0),
    aten.zeros.default: _sized(0),
    aten._efficientzerotensor.default: _sized(0),
    aten.ones.default: _sized(1),
    aten.empty.memory_format: _sized(0),
    aten.new_zeros.default: _new(0),
    aten.new_ones.default: _new(1),
    aten.empty_strided.default: _by_layout(aten.empty_strided.default),
    aten.empty_permuted.default: _by_layout(aten.empty_permuted.default),
    aten.new_empty.default: _new(0),
    aten.new_full.default: _new_full,
    aten.new_empty_strided.default: _new_empty_strided,
    aten.full.default: _full,
    aten.scalar_tensor.default: _scalar_tensor,
}
"""What was never written may hold anything: `empty` is zeros here, which fuses and is the same every time."""
