"""The instructions of the predicates about torch. Where the C hook may not read, they refuse, and Python is asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dynascope.guards.global_state import GlobalStateIs, state_probes
from dynascope.guards.tensor_guard import TensorMatches
from dynascope.guards.tensor_layout import expected_tensor, is_plain, tensor_layout


def _tensor_matches(writer: Any, predicate: TensorMatches, source: int) -> bool:
    layout = tensor_layout()
    if layout is None or not is_plain(predicate):
        return False
    return writer.check("CHECK_TENSOR", source, expected_tensor(layout, predicate))


def _global_state_is(writer: Any, predicate: GlobalStateIs) -> bool:
    return writer.check("CHECK_STATE", 0, state_probes(predicate))


TORCH_CHECKS: dict[type, Callable[..., bool]] = {
    TensorMatches: _tensor_matches,
    GlobalStateIs: _global_state_is,
}
