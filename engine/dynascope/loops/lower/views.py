"""Views: a view of a tensor is the same buffer with other sizes, strides and offset, which meta tensors know exactly.

    x f32[4, 8]; y = x.t()[1:]      ->      y is buffer x, sizes (7, 4), strides (1, 8), offset 1

Nothing is computed and no node is made. An operator is a view when its schema says that its result aliases an operand
and it does not write; a few that the schema does not mark are listed here.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch

from dynascope.loops.index import Extent
from dynascope.loops.layouts import ResultLayout
from dynascope.loops.lower.rules import Lowering
from dynascope.loops.lower.slices import clamped, wrapped
from dynascope.loops.nodes import TensorView
from dynascope.sizes import Size, same

aten = torch.ops.aten
ALSO_VIEWS = {aten._unsafe_view.default, aten.detach.default, aten.lift_fresh.default, aten.lift_fresh_copy.default}
MAY_COPY = {aten.reshape.default, aten.contiguous.default, aten.flatten.using_ints, aten.to.dtype}
REINTERPRETS = {aten.view.dtype, aten.view_as_real.default, aten.view_as_complex.default, aten.real.default,
                aten._conj.default, aten._neg_view.default, aten.imag.default}  # fmt: skip


def view_result(call: Lowering) -> Any:
    """The value of a view call: a TensorView or a tuple of them. None where the call is not a view."""
    if not is_view(call.operator) or not call.arguments or not isinstance(call.arguments[0], TensorView):
        return None
    base = call.arguments[0]
    offsets = _offsets(call, base)
    if offsets is None:
        return None
    views = tuple(_view(base, meta, offset) for meta, offset in zip(call.results, offsets, strict=True))
    if any(view is None for view in views):
        return None
    return views if isinstance(call.node.meta["val"], (list, tuple)) else views[0]


def view_where_it_lies(call: Lowering) -> TensorView | None:
    """The one value of a view call whose operand does not lie as the graph says. None where that is not known."""
    base = call.arguments[0]
    if not isinstance(base, TensorView) or _varies((base.sizes, base.strides, base.offset, call.arguments[1:])):
        return None
    try:
        view = _on_meta(call, base)
    except RuntimeError:  # its sizes do not go together there
        return None
    if not isinstance(view, torch.Tensor) or call.operator is aten.as_strided.default:
        return None
    return TensorView(base.buffer, base.dtype, tuple(view.shape), view.stride(), base.offset + view.storage_offset())


def _view(base: TensorView, meta: ResultLayout, offset: Extent) -> TensorView | None:
    if meta.dtype != base.dtype:
        return None
    return TensorView(base.buffer, base.dtype, meta.shape, meta.strides, offset)


def _offsets(call: Lowering, base: TensorView) -> tuple[Extent, ...] | None:
    """Where each view starts in the buffer. The operator itself says, on a meta tensor that lies as the base does; the
    graph's own meta values say sizes and strides only (a recorder may not have kept them in one memory)."""
    if call.operator is aten._unsafe_view.default:
        return (base.offset,)
    if call.operator is aten.as_strided.default:
        given = call.arguments[3] if len(call.arguments) > 3 else call.keywords.get("storage_offset")
        return (base.offset if given is None else given,)
    if _varies((base.sizes, base.strides, call.arguments[1:], tuple(call.keywords.values()))):
        starts = _varying_starts(call, base)
        return None if starts is None else tuple(base.offset + start for start in starts)
    views = _on_meta(call, base)
    return tuple(base.offset + v.storage_offset() for v in (views if isinstance(views, (list, tuple)) else (views,)))


def _on_meta(call: Lowering, base: TensorView) -> Any:
    """What the operator gives of a tensor that lies as the base does, from the start of its memory."""
    like = torch.empty_strided(base.sizes, base.strides, dtype=base.dtype, device="meta")
    return call.operator(like, *call.arguments[1:], **call.keywords)


def _varies(value: Any) -> bool:
    if isinstance(value, (tuple, list)):
        return any(map(_varies, value))
    return isinstance(value, Size)


AT_START = frozenset(
    [
        *("view", "reshape", "alias", "detach", "t", "transpose", "permute", "numpy_T", "mT", "swapaxes", "swapdims"),
        *("movedim", "moveaxis", "expand", "expand_as", "view_as", "unsqueeze", "squeeze", "flatten", "unflatten"),
        *("ravel", "lift_fresh", "unfold", "broadcast_to", "adjoint"),
    ]
)
"""Views that begin where their base does."""


def _varying_starts(call: Lowering, base: TensorView) -> tuple[Extent, ...] | None:
    """How far each view begins after its base, as expressions. None for views that are not known here."""
    name = call.operator._schema.name.split("::")[1]
    if name in AT_START:
        return (0,) * len(call.results)
    rule = _STARTS.get(name)
    return None if rule is None else rule(call, base)


def _dimension(call: Lowering, base: TensorView, position: int) -> int:
    dimension = call.operand(position, "dim", 0)
    return int(dimension) % len(base.sizes)


def _select(call: Lowering, base: TensorView) -> tuple[Extent, ...]:
    dimension = _dimension(call, base, 1)
    return (wrapped(call.operand(2, "index"), base.sizes[dimension]) * base.strides[dimension],)


def _slice(call: Lowering, base: TensorView) -> tuple[Extent, ...]:
    dimension = _dimension(call, base, 1)
    return (clamped(call.operand(2, "start"), base.sizes[dimension]) * base.strides[dimension],)


def _narrow(call: Lowering, base: TensorView) -> tuple[Extent, ...] | None:
    dimension, start = _dimension(call, base, 1), call.operand(2, "start")
    if isinstance(start, TensorView):
        return None
    return (wrapped(start, base.sizes[dimension]) * base.strides[dimension],)


def _parts(call: Lowering, base: TensorView) -> tuple[Extent, ...] | None:
    """One part after the other, as long as their results say, of the whole dimension."""
    dimension = _dimension(call, base, 2)
    starts, at = [], 0
    for part in call.results:
        starts.append(at * base.strides[dimension])
        at = at + part.shape[dimension]
    return tuple(starts) if same(at, base.sizes[dimension]) or at == base.sizes[dimension] else None


def _unbind(call: Lowering, base: TensorView) -> tuple[Extent, ...]:
    stride = base.strides[_dimension(call, base, 1)]
    return tuple(stride * number for number in range(len(call.results)))


def _diagonal(call: Lowering, base: TensorView) -> tuple[Extent, ...]:
    offset, first, second = (
        call.operand(1 + k, n, d) for k, (n, d) in enumerate((("offset", 0), ("dim1", 0), ("dim2", 1)))
    )
    return (offset * base.strides[second] if offset >= 0 else -offset * base.strides[first],)


_STARTS = {
    "select": _select,
    "slice": _slice,
    "narrow": _narrow,
    "unbind": _unbind,
    "diagonal": _diagonal,
    **dict.fromkeys(("split", "split_with_sizes", "chunk", "unsafe_split", "unsafe_chunk", "tensor_split"), _parts),
}


@cache
def is_view(operator: Any) -> bool:
    """Whether a call of it makes a view, wherever its operand lies."""
    if operator in ALSO_VIEWS:
        return True
    if operator in MAY_COPY or operator in REINTERPRETS or not hasattr(operator, "_schema"):
        return False
    returns = operator._schema.returns
    return bool(returns) and all(r.alias_info is not None and not r.alias_info.is_write for r in returns)
