"""Where a graph is cut under DistributedDataParallel: gradients of a part are reduced while those of the part before are computed.

    a region of autograd gives all of its gradients at once        reduce, reduce, reduce after the whole backward pass
    borders_of_buckets(graph)    [11, 24]                          reduce beside backward, from the last part on

DistributedDataParallel sends parameters in buckets, last ones first, when all gradients of a bucket are there. A cut is made where the
parameters that are read from there on fill one, and only tensors pass. Each part is then a region of autograd's own.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch import fx

from dynascope.autograd_functions import gradients


def borders_of_buckets(graph: fx.GraphModule) -> list[int]:
    """The places in the order of the graph's nodes after which another part begins."""
    parallel = sys.modules.get("torch.nn.parallel.distributed")
    module = parallel.DistributedDataParallel._get_active_ddp_module() if parallel is not None else None
    if module is None or not torch.is_grad_enabled():
        return []
    first = min(module.bucket_bytes_cap, torch.distributed._DEFAULT_FIRST_BUCKET_BYTES)  # pyright: ignore[reportPrivateImportUsage]
    return _borders(graph, first, module.bucket_bytes_cap)


def _borders(graph: fx.GraphModule, first: int, others: int) -> list[int]:
    nodes = [node for node in graph.graph.nodes if node.op not in ("placeholder", "output")]
    if any(node.target is gradients for node in nodes):
        return []
    cuts = _cuts(nodes, _places_of_cuts(nodes), first, others)
    places = {node: at for at, node in enumerate(graph.graph.nodes)}
    return sorted(places[nodes[at]] - 1 for at in cuts)


def _cuts(nodes: list[fx.Node], places: set[int], first: int, others: int) -> set[int]:
    """Each before a node, found from the last one on, as the backward pass comes."""
    seen: set[fx.Node] = set()
    cuts: set[int] = set()
    filled, capacity = 0, first
    for at in range(len(nodes) - 1, -1, -1):
        for given in nodes[at].all_input_nodes:
            if given not in seen and _is_parameter(given):
                seen.add(given)
                filled += given.meta["example_value"].nbytes
        if filled >= capacity and at in places:
            cuts.add(at)
            filled, capacity = 0, others
    # What is left for the first part may be no parameter's.
    return cuts if filled else cuts - {min(cuts, default=0)}


def _places_of_cuts(nodes: list[fx.Node]) -> set[int]:
    """Before which nodes only tensors and numbers pass, and torch's state is what it was at the start."""
    last_reader = {node: at for at, node in enumerate(nodes)}
    for at, node in enumerate(nodes):
        for given in node.all_input_nodes:
            last_reader[given] = at
    sets_state = [at for at, node in enumerate(nodes) if node.meta.get("kept") and node.meta.get("example_value") is None]
    blocked = set(range(sets_state[0] + 1, sets_state[-1] + 1)) if sets_state else set()
    for at, node in enumerate(nodes):
        if not isinstance(node.meta.get("example_value"), torch.Tensor) and "size" not in node.meta:
            blocked.update(range(at + 1, last_reader[node] + 1))
    return set(range(1, len(nodes))) - blocked


def _is_parameter(node: fx.Node) -> bool:
    example: Any = node.meta.get("example_value")
    return node.op == "placeholder" and isinstance(example, torch.Tensor) and example.requires_grad
