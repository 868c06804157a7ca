"""Results of one graph that are computed from each other, and where the graph is cut so that autograd sees it.

    h = encoder(x); y = head(h); return h, y        part 0: h of x        part 1: y of h

A region is one node of autograd's, whose results are siblings: `autograd.grad(y, h)`, `h.retain_grad()` and a hook on `h` would find no
way from `y` to `h`. So what others are computed from is the last thing that a part computes, and each part has a node of its own.
Which results these are is read off the histories that the capture's meta tensors have.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Sequence
from typing import Any

import torch
from torch import fx

from dynascope.autograd_functions import gradients
from dynascope.capture.histories import functions_of, storage_of
from dynascope.graph_parts import is_computed_number


def borders_of(graph: fx.GraphModule, shown: Collection[fx.Node]) -> list[int]:
    """The places in the order of the graph's nodes after which another part begins. `shown` are what the program gets."""
    nodes = list(graph.graph.nodes)
    histories = _histories(nodes, shown)
    if len(histories) < 2:
        return []
    reached = {node: set(functions_of([example])) - {example.grad_fn} for node, example, _ in histories}
    borders = {
        min(end, last - 1)
        for node, example, end in histories
        for other, derived, last in histories
        if last > 0 and example.grad_fn in reached[other] and derived._base is not example
    }
    return sorted(border for border in borders if _can_end_at(nodes, border))


def _histories(nodes: Sequence[fx.Node], shown: Collection[fx.Node]) -> list[tuple[fx.Node, torch.Tensor, int]]:
    """What the program has when the graph has run and autograd knows the way to, with the place where it was last written."""
    places = {node: at for at, node in enumerate(nodes)}
    written: dict[Any, int] = {}
    for node in nodes:
        for each in node.meta.get("writes", ()):
            written[storage_of(each)] = places[node]
    had: dict[int, tuple[fx.Node, torch.Tensor, int]] = {}
    for node in nodes:
        is_written_input = node.op == "placeholder" and storage_of(node) in written
        if not is_written_input and (node.op == "placeholder" or node not in shown):
            continue
        example = node.meta.get("example_value")
        if isinstance(example, torch.Tensor) and example.requires_grad and _function_of(example) is not None:
            had.setdefault(id(example), (node, example, max(places[node], written.get(storage_of(node), 0))))
    return list(had.values())


def _function_of(example: torch.Tensor) -> Any:
    """None where there is none, or where autograd refuses to say."""
    try:
        return example.grad_fn
    except RuntimeError:
        return None


def _can_end_at(nodes: Sequence[fx.Node], border: int) -> bool:
    """What differentiates inside a graph follows histories in it: it stays with what they come from."""
    return not any(node.target is gradients for node in nodes[border + 1 :])


def levels_between(graph: fx.GraphModule, borders: Sequence[int]) -> dict[fx.Node, int]:
    """The part that each operation belongs to. What takes one result of several belongs to the operation that gives them."""
    levels: dict[fx.Node, int] = {}
    for at, node in enumerate(graph.graph.nodes):
        if node.op in ("placeholder", "output") or is_computed_number(node):
            continue
        level = sum(border < at for border in borders)
        if node.target is operator.getitem and not isinstance(node.args[0].meta.get("example_value"), torch.Tensor):
            level = levels.get(node.args[0], level)
        levels[node] = level
    return levels
