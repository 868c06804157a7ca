"""Writes through `.data` in a graph that is cut into parts: what one part wrote so, the backward pass of another one reads.

    z = x * w * w; y = z * 2; w.data.mul_(0.9); return z, y      part 0: z of x, w      part 1: y of z, and the write to w

No version counts such a write. Eager's backward pass reads the new contents of what it kept itself, and its own results as they
were. A part's backward pass computes results again from what the part was given, which by then is something else. In one part the
recording of both passes sees the write and tells the two apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import fx
from torch.utils._pytree import tree_leaves

from dynascope.autograd_functions import gradients
from dynascope.capture.histories import function_of, functions_of, storage_of
from dynascope.graph_parts import Part, results_of


def read_by_an_earlier_part(graph: fx.GraphModule, parts: Sequence[Part]) -> fx.Node | None:
    """The first operation that writes through `.data` what an earlier part computed with, where a backward pass may yet come there."""
    nodes = list(graph.graph.nodes)
    if not any(_is_data(node) for node in nodes):
        return None
    part_of = {node: at for at, part in enumerate(parts) for node in part.nodes}
    for place, node in enumerate(nodes):
        for memory in _written_uncounted(node):
            before = [each for each in nodes[:place] if each in part_of and part_of[each] < part_of[node]]
            readers = [each for each in before if _computes_with(each, memory)]
            if readers and _may_be_entered(readers, memory, nodes, place, results_of(graph)):
                return node
    return None


def _is_data(node: fx.Node) -> bool:
    return node.target is getattr and len(node.args) > 1 and node.args[1] == "data"


def _written_uncounted(writer: fx.Node) -> Iterator[int | None]:
    """The memory that it writes by way of `.data`."""
    for written in writer.meta.get("writes", ()):
        memory, node = storage_of(written), written
        while node is not None and storage_of(node) == memory and not _is_data(node):
            node = next(iter(node.all_input_nodes), None)
        if node is not None and storage_of(node) == memory:
            yield memory


def _computes_with(node: fx.Node, memory: int | None) -> bool:
    touches = any(storage_of(each) == memory for each in (node, *node.all_input_nodes))
    return touches and any(example.requires_grad for example in _examples(node))


def _examples(node: fx.Node) -> list[torch.Tensor]:
    return [each for each in tree_leaves(node.meta.get("example_value")) if isinstance(each, torch.Tensor)]


def _may_be_entered(
    readers: Sequence[fx.Node], memory: int | None, nodes: Sequence[fx.Node], place: int, results: Sequence[fx.Node]
) -> bool:
    """Whether what the program gets, or gradients that are taken after the write, lead there. A pass that came to that memory before
    and freed what it read leaves nothing to come there for."""
    passes: list[tuple[int, Any]] = [(at, node.args) for at, node in enumerate(nodes) if node.target is gradients]
    later = [output for at, (outputs, *_) in passes if at > place for output in outputs]
    freed: set[Any] = set()
    for at, (outputs, inputs, _, keeps_graph, _) in passes:
        if at < place and not keeps_graph and any(storage_of(each) == memory for each in inputs):
            freed.update(functions_of(example for output in outputs for example in _examples(output)))
    entered = set(functions_of(example for node in (*results, *later) for example in _examples(node))) - freed
    made = [example for node in readers for example in _examples(node)]
    # What was written in place since has another function by now, and what gives several results in a list says none.
    return any(example._version > 0 or function_of(example) in entered for example in made)
