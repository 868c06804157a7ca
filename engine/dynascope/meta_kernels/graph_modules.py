"""Graphs as modules whose Python text is written when somebody calls them or reads it: kernels take the place of most.

    graph_module(root, graph)      an `fx.GraphModule`; a third of what making it would take is saved
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import fx

try:
    from torch.fx._lazy_graph_module import _LazyGraphModule as _Lazy
except ImportError:
    _Lazy = fx.GraphModule  # type: ignore[misc,assignment]


def graph_module(root: Any, graph: fx.Graph, name: str = "GraphModule") -> fx.GraphModule:
    return _Lazy(root, graph, name)


def written(module: fx.GraphModule) -> fx.GraphModule:
    """The same as a plain one, for whoever may look at its class or keep its `forward`."""
    return fx.GraphModule(module, module.graph) if isinstance(module, _Lazy) else module


def forward_of(module: fx.GraphModule) -> Callable[..., Any]:
    """Its operators one by one. Of a module whose text is not written yet the first call would go by fx's own, which prints each error."""
    if isinstance(module, _Lazy) and _Lazy is not fx.GraphModule:
        module.real_recompile()
    return module.forward
