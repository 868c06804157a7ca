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
    base, base_meta = call.arguments[0], call.node.args[0].meta["val"]
    views = tuple(_view(base, base_meta, meta, call) for meta in call.results)
    if any(view is None for view in views):
        return None
    return views if isinstance(call.node.meta["val"], (list, tuple)) else views[0]


def _view(base: TensorView, base_meta: torch.Tensor, meta: torch.Tensor, call: Lowering) -> TensorView | None:
    offset = base.offset + meta.storage_offset() - base_meta.storage_offset()
    if call.operator is aten._unsafe_view.default:
        offset = base.offset
    if meta.dtype != base.dtype:
        return None
    return TensorView(base.buffer, base.dtype, tuple(meta.shape), tuple(meta.stride()), offset)


@cache
def _is_view(operator: Any) -> bool:
    if operator in ALSO_VIEWS:
        return True
    if operator in MAY_COPY or operator in REINTERPRETS or not hasattr(operator, "_schema"):
        return False
    returns = operator._schema.returns
    return bool(returns) and all(r.alias_info is not None and not r.alias_info.is_write for r in returns)


