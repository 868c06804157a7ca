"""Views that are told to require grad stay views when kernels made them.

    x = torch.arange(6.0).view(2, 3).requires_grad_()
    with torch.no_grad():
        v = x[:]                     a view of what `arange` gave, which requires no grad: neither does `v`

Of memory that nothing else holds kernels make the view itself, and autograd would take it for its own base: `v` would then require
grad. Other results may be their own base, because nobody can tell before they are told.

A leaf from outside may be such a view, too. Whether it is one is guarded where a view is taken of it without recording.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from dynascope.autograd_functions.awaited_histories import is_made
from dynascope.capture.values import TensorValue, Value
from dynascope.guards.tensor_guard import WrittenAs

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine

TOLD_AS_VIEW = "told_as_view"
"""In `meta` of a node: its tensor, made inside, is a view and is told to require grad when the graph has run or after a break."""


def told_places(outputs: Iterable[fx.Node]) -> list[int]:
    return [at for at, node in enumerate(outputs) if TOLD_AS_VIEW in node.meta]


def giving_views(graph: Callable[..., Any], places: Sequence[int]) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        results = list(graph(*arguments))
        for at in places:
            if not results[at]._is_view():
                results[at] = results[at].view_as(results[at])
        return results

    return call


def guard_views(machine: Machine, outside: Iterable[Value]) -> None:
    """A view that is made without recording requires grad where the base of what it is taken of does."""
    examples = (node.meta.get("example_value") for node in machine.graph.graph.nodes)
    views = [each for each in examples if isinstance(each, torch.Tensor) and each._is_view() and is_made(each, "NO_GRAD_MODE")]
    bases = {id(view._base) for view in views}
    for tensor in outside if bases else ():
        if not isinstance(tensor, TensorValue) or tensor.object is None or not tensor.example.requires_grad:
            continue
        base = tensor.example._base if tensor.example._is_view() else tensor.example
        if id(base) in bases:
            machine.guards.add(tensor.source, WrittenAs.of(tensor.object))
