"""Graphs for exporters of torch's, which take modules and tensors, and give what they were told to give: once, and tensors only.

    exportable(graph, results)             a module that gives each made value once
    result_of(node, found, inputs, ...)    of those values, what the graph gives at a place
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import fx


@contextlib.contextmanager
def generators_kept() -> Iterator[None]:
    """Exporters that do not get on try other ways, which draw random numbers: the program's own stay what they are."""
    with torch.random.fork_rng(list(range(torch.cuda.device_count()))):
        yield


def made_in(results: list[Any]) -> list[fx.Node]:
    """What of the results the graph computes, each once."""
    return [node for node in dict.fromkeys(results) if isinstance(node, fx.Node) and node.op != "placeholder"]


def exportable(graph: fx.GraphModule, results: list[Any]) -> fx.GraphModule:
    """Each value once, and no None: ONNX has names for results and no place for what is none. Exporters have their own ideas of
    how results lie in memory: what is a view here may have to be a copy there."""
    copied = fx.GraphModule(graph, fx.Graph())
    nodes: dict[fx.Node, fx.Node] = {}
    for node in graph.graph.nodes:
        if node.op != "output":
            nodes[node] = copied.graph.node_copy(node, nodes.__getitem__)
            if node.target is torch.ops.aten.view.default:
                nodes[node].target = torch.ops.aten.reshape.default
    copied.graph.output(tuple(nodes[node] for node in made_in(results)))
    copied.recompile()
    return copied.eval()


def example_of(value: torch.Tensor) -> torch.Tensor:
    if value.device.type != "meta":
        return value.detach()
    return torch.zeros(value.shape, dtype=value.dtype)


def result_of(node: Any, found: dict[fx.Node, Any], inputs: tuple[Any, ...], positions: dict[str, int]) -> Any:
    if not isinstance(node, fx.Node):
        return node
    if node.op == "placeholder":
        return inputs[positions[node.name]]
    example = node.meta["val"]
    device = node.meta.get("device") or torch.device("cpu")
    value = found[node].to(device)
    if value.stride() == example.stride():
        return value
    return torch.empty_strided(example.shape, example.stride(), dtype=value.dtype, device=device).copy_(value)
