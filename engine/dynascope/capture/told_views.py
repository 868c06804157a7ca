"""Views that are told to require grad stay views when kernels made them.

    x = torch.arange(6.0).view(2, 3).requires_grad_()
    with torch.no_grad():
        v = x[:]                     a view of what `arange` gave, which requires no grad: neither does `v`

Of memory that nothing else holds kernels make the view itself, and autograd would take it for its own base: `v` would then require
grad. Other results may be their own base, because nobody can tell before they are told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from torch import fx

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
