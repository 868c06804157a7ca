"""The instructions of the predicates about torch. Where the C hook may not read, they refuse, and Python is asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from dynascope.guards.global_state import GlobalStateIs, state_probes
from dynascope.guards.tensor_guard import NoOverlap, TensorMatches, WrittenAs
from dynascope.guards.tensor_layout import expected_tensor, is_plain, tensor_layout


def _tensor_matches(writer: Any, predicate: TensorMatches, source: int) -> bool:
    layout = tensor_layout()
    if layout is None or not is_plain(predicate):
        return False
    return writer.check("CHECK_TENSOR", source, expected_tensor(layout, predicate))


def _global_state_is(writer: Any, predicate: GlobalStateIs) -> bool:
    return writer.check("CHECK_STATE", 0, state_probes(predicate))


def _no_overlap(writer: Any, predicate: NoOverlap, *sources: int) -> bool:
    if tensor_layout() is None or len(predicate.element_sizes) != len(sources):
        return False
    return writer.check("CHECK_APART", 0, ((predicate.holds, *sources), predicate.element_sizes, torch.Tensor))


def _written_as(writer: Any, predicate: WrittenAs, source: int) -> bool:
    """Nearly all that programs write in place: parameters, and what an optimizer keeps."""
    if predicate != WrittenAs(leaf=True, base_is_leaf=False, creation=""):
        return False
    return writer.check("CHECK_LEAF", source, ((predicate.holds, source), (torch.Tensor, torch.nn.Parameter)))


TORCH_CHECKS: dict[type, Callable[..., bool]] = {
    TensorMatches: _tensor_matches,
    GlobalStateIs: _global_state_is,
    NoOverlap: _no_overlap,
    WrittenAs: _written_as,
}
