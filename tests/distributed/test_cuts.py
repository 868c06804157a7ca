"""Where a graph is cut for buckets of gradients."""

from __future__ import annotations

import torch
from dynascope.dependent_results import parts_by_histories
from dynascope.gradient_buckets import _borders
from torch import fx, nn


def graph_of(*operations):
    """Operations by name: (function, what they read, example)."""
    graph, nodes = fx.Graph(), {}
    for name, target, arguments, example in operations:
        given = tuple(nodes.get(each, each) for each in arguments)
        node = graph.placeholder(name) if target is None else graph.call_function(target, given)
        node.meta["example_value"] = example
        nodes[name] = node
    graph.output((node,))
    return fx.GraphModule(nn.Module(), graph), nodes


def _levels(graph, first, others):
    return parts_by_histories(graph, (), _borders(graph, first, others)) or None


def weight():
    return torch.empty(4, 4, requires_grad=True)


X = torch.empty(4, 4)
LAYERS = (
    ("x", None, (), X),
    *((name, None, (), weight()) for name in ("a", "b", "c")),
    ("h", torch.mm, ("x", "a"), X),
    ("i", torch.relu, ("h",), X),
    ("j", torch.mm, ("i", "b"), X),
    ("k", torch.mm, ("j", "c"), X),
)


def test_each_part_fills_a_bucket():
    graph, nodes = graph_of(*LAYERS)
    assert {node.name: level for node, level in _levels(graph, 1, 1).items()} == {"mm": 0, "relu": 0, "mm_1": 1, "mm_2": 2}
    assert _levels(graph, 100, 100) == dict(zip((nodes[n] for n in "hijk"), (0, 0, 1, 1), strict=True))
    assert _levels(graph, 1000, 1000) is None


def test_only_tensors_pass():
    graph, nodes = graph_of(
        *LAYERS[:5], ("pair", torch.chunk, ("h", 2), None), ("w", torch.mm, ("h", "b"), X), ("first", next, ("pair",), X)
    )
    # Before the product a tuple would pass.
    assert _levels(graph, 1, 1) == {nodes["h"]: 0, nodes["pair"]: 1, nodes["w"]: 1, nodes["first"]: 1}


def test_no_cut_where_torchs_state_is_another():
    graph, nodes = graph_of(
        *LAYERS[:5],
        ("off", torch._C._set_grad_enabled, (False,), None),
        ("j", torch.mm, ("h", "b"), X),
        ("on", torch._C._set_grad_enabled, (True,), None),
        ("k", torch.mm, ("j", "c"), X),
    )
    nodes["off"].meta["kept"] = nodes["on"].meta["kept"] = True
    levels = _levels(graph, 1, 1)
    assert levels == {nodes["h"]: 0, nodes["off"]: 1, nodes["j"]: 1, nodes["on"]: 1, nodes["k"]: 2}
