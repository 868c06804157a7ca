"""Views: a view of a tensor is the same buffer with other sizes, strides and offset, which meta tensors know exactly.

    x f32[4, 8]; y = x.t()[1:]      ->      y is buffer x, sizes (7, 4), strides (1, 8), offset 1

Nothing is computed and no node is made. An operator is a view when its schema says that its result aliases an operand
and it does not write; a few that the schema does not mark are listed here.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch

from dynascope.loops.lower.rules import Lowering
from dynascope.loops.nodes import TensorView

aten = torch.ops.aten
ALSO_VIEWS = {aten._unsafe_view.default, aten.detach.default, aten.lift_fresh.default, aten.lift_fresh_copy.default}
MAY_COPY = {aten.reshape.default, aten.contiguous.default, aten.flatten.using_ints, aten.to.dtype}
REINTERPRETS = {aten.view.dtype, aten.view_as_real.default, aten.view_as_complex.default, aten.real.default,
                aten._conj.default, aten._neg_view.default, aten.imag.default}  # fmt: skip


def view_result(call: Lowering) -> Any:
    """The value of a view call: a TensorView or a tuple of them. None where the call is not a view."""
    if not _is_view(call.operator) or not call.arguments or not isinstance(call.arguments[0], TensorView):
        return None
    base = call.arguments[0]
    views = tuple(_view(base, meta, offset) for meta, offset in zip(call.results, _offsets(call, base), strict=True))
    if any(view is None for view in views):
        return None
    return views if isinstance(call.node.meta["val"], (list, tuple)) else views[0]


def _view(base: TensorView, meta: torch.Tensor, offset: int) -> TensorView | None:
    if meta.dtype != base.dtype:
        return None
    return TensorView(base.buffer, base.dtype, tuple(meta.shape), tuple(meta.stride()), offset)


def _offsets(call: Lowering, base: TensorView) -> tuple[int, ...]:
    """Where each view starts in the buffer. The operator itself says, on a meta tensor that lies as the base does; the
    graph's own meta values say sizes and strides only (a recorder may not have kept them in one memory)."""
    if call.operator is aten._unsafe_view.default:
        return (base.offset,)
    if call.operator is aten.as_strided.default:
        given = call.arguments[3] if len(call.arguments) > 3 else call.keywords.get("storage_offset")
        return (base.offset if given is None else given,)
    like = torch.empty_strided(base.sizes, base.strides, dtype=base.dtype, device="meta")
    views = call.operator(like, *call.arguments[1:], **call.keywords)
    return tuple(base.offset + v.storage_offset() for v in (views if isinstance(views, (list, tuple)) else (views,)))


@cache
def _is_view(operator: Any) -> bool:
    if operator in ALSO_VIEWS:
        return True
    if operator in MAY_COPY or operator in REINTERPRETS or not hasattr(operator, "_schema"):
        return False
    returns = operator._schema.returns
    return bool(returns) and all(r.alias_info is not None and not r.alias_info.is_write for r in returns)
