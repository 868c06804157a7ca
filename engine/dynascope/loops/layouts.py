"""How the results of an fx node lie in memory: as its meta tensors do, or as `meta["layout"]` says where sizes vary.

node.meta["val"]     a meta tensor at the sizes at hand     f32[7, 64]
node.meta["layout"]  sizes, strides, dtype, device          f32[s0, 64]; absent where nothing varies
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import fx

from dynascope.dataclass import dataclass
from dynascope.loops.index import Extent
from dynascope.loops.nodes import Buffer, TensorView
from dynascope.sizes import Size, is_constant, is_relied_to_be, known, same, solved


@dataclass(frozen=True, slots=True)
class ResultLayout:
    """A tensor that a call returns."""

    shape: tuple[Extent, ...]
    strides: tuple[Extent, ...]
    dtype: torch.dtype

    def stride(self) -> tuple[Extent, ...]:
        return self.strides


def result_layouts(node: fx.Node) -> tuple[Any, ...]:
    """One for each result; a result that is no tensor is itself."""
    value, layout = node.meta.get("val"), node.meta.get("layout")
    kept = node.meta.get("result_layouts")
    if kept is not None and kept[0] is value and kept[1] is layout:
        return kept[2]
    values = tuple(value) if isinstance(value, (list, tuple)) else (value,)
    layouts = tuple(layout) if isinstance(layout, (list, tuple)) else (layout,)
    if len(layouts) != len(values):
        layouts = (None,) * len(values)
    found = tuple(_layout(v, known) for v, known in zip(values, layouts, strict=True))
    node.meta["result_layouts"] = value, layout, found
    return found


def _layout(value: Any, layout: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    if layout is None:
        return ResultLayout(tuple(value.shape), tuple(value.stride()), value.dtype)
    return ResultLayout(tuple(_dimension(solved(size)) for size in layout.sizes), tuple(map(solved, layout.strides)), value.dtype)


def _dimension(size: Extent) -> Extent:
    """A size with at least one element, which is relied on where expressions do not tell it. No other size varies."""
    if size.__class__ is not Size or known(">=", size, 1):
        return size
    return size if size >= 1 else int(size)


def row_major(sizes: Iterable[Extent]) -> tuple[Extent, ...]:
    """The strides of a contiguous tensor."""
    sizes = tuple(sizes)
    return dense(sizes, reversed(range(len(sizes))))


def channels_last(sizes: Sequence[Extent]) -> tuple[Extent, ...]:
    """The strides of a tensor of sizes (batch, channels, ...) whose channels lie side by side."""
    return dense(sizes, (1, *reversed(range(2, len(sizes))), 0))


def dense(sizes: Sequence[Extent], order: Iterable[int]) -> tuple[Extent, ...]:
    """The strides of a tensor without holes whose dimensions lie in this order, the innermost first."""
    strides: list[Extent] = [0] * len(sizes)
    step: Extent = 1
    inner: Extent = 1
    for dimension in order:
        step = step * inner
        strides[dimension], inner = step, sizes[dimension]
    return tuple(strides)


def is_empty(tensor: TensorView) -> bool:
    """Whether it never has an element. A size that varies is at least 1."""
    return any(is_constant(size, 0) for size in tensor.sizes)


def is_dense(buffer: Buffer) -> bool:
    """Whether each place of the memory is one element."""
    pairs = [(size, stride) for size, stride in zip(buffer.sizes, buffer.strides, strict=True) if not is_constant(size, 1)]
    reach = sum((size - 1) * stride for size, stride in pairs)
    return not any(is_constant(stride, 0) for _, stride in pairs) and same(reach + 1, buffer.elements)


def broadcast(shapes: Iterable[tuple[Extent, ...]]) -> tuple[Extent, ...]:
    """The shape that tensors of these shapes have together. That they fit is known: the operator has run on them."""
    result: list[Extent] = []
    for shape in shapes:
        for k, size in enumerate(reversed(shape)):
            if k == len(result):
                result.append(size)
            elif is_relied_to_be(result[k], 1):
                result[k] = size
    return tuple(reversed(result))
