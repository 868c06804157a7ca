"""How a graph is called that has operations in inference mode and outside of it.

    InferenceCall(enters=True)           all that leaves the graph is made in the mode: it is called there
    InferenceCall(places=(1,))           it is called outside; its second result is made an inference tensor, as eager's is
    InferenceCall(leaves=True, ...)      the region begins in the mode, and the graph is called outside
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from dynascope.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class InferenceCall:
    enters: bool = False
    leaves: bool = False
    places: tuple[int, ...] = ()

    def of(self, graph: Callable[..., Any]) -> Callable[..., Any]:
        graph = _with_inference_tensors(graph, self.places) if self.places else graph
        if self.leaves:
            return _outside(graph)
        return _inside(graph) if self.enters else graph

    @contextmanager
    def while_compiled(self, records: bool) -> Iterator[None]:
        """What compiles the graph, and tries it, finds the mode that it is called in."""
        records = records or torch.is_grad_enabled()
        with torch.inference_mode(torch.is_inference_mode_enabled() and not self.leaves), torch.set_grad_enabled(records):
            yield


def _inside(graph: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        with torch._C._InferenceMode(True):
            return graph(*arguments)

    return call


def _outside(graph: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        with torch._C._InferenceMode(False):
            torch._C._set_grad_enabled(False)
            return graph(*arguments)

    return call


def _with_inference_tensors(graph: Callable[..., Any], places: tuple[int, ...]) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        results = list(graph(*arguments))
        with torch._C._InferenceMode(True):
            for place in places:
                results[place] = _on_the_same_memory(results[place])
        return results

    return call


def _on_the_same_memory(tensor: Any) -> Any:
    """In inference mode: such a tensor. A view of another kind of tensor would be of that kind."""
    if tensor.is_inference():
        return tensor
    made = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
    made.set_(tensor.untyped_storage(), tensor.storage_offset(), tensor.size(), tensor.stride())
    made = made.conj() if tensor.is_conj() else made
    return torch._neg_view(made) if tensor.is_neg() else made
