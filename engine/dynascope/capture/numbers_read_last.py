"""Numbers that only the run knows are read out of tensors where something first needs them, not where the program asked for them.

    total += loss.item(); loss.backward(); optimizer.step()      the number leaves the graph, and nothing in it reads it:
                                                                 forward and backward pass stay one part
A tensor that is written in between is read as it was: a copy is made where the program asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import fx

from dynascope.autograd_functions import gradients
from dynascope.capture.histories import storage_of

if TYPE_CHECKING:
    from dynascope.capture.graph import GraphBuilder

READS = ("item", "tolist")


def waits(node: fx.Node, kept: set[fx.Node]) -> bool:
    """Whether it is a number read out of a tensor, or computed of such, that so far only numbers are computed of."""
    return is_number_read(node, kept) and all(waits(user, kept) for user in node.users)


def is_number_read(node: fx.Node, kept: set[fx.Node]) -> bool:
    if node.op == "placeholder" or node in kept or "late_result" in node.meta or not {"late", "size"} & node.meta.keys():
        return False
    if node.op == "call_method":
        return node.target in READS
    is_tensor = isinstance(node.meta.get("example_value"), torch.Tensor)
    return not is_tensor and any(is_number_read(other, kept) for other in node.all_input_nodes)


def read_where_needed(builder: GraphBuilder) -> None:
    """Of a graph that differentiates: each such number comes directly before the first that needs it, or at the end."""
    nodes = list(builder.graph.nodes)
    if not any(node.target is gradients for node in nodes):
        return
    numbers = [node for node in nodes if is_number_read(node, builder.kept)]
    order = {node: at for at, node in enumerate(nodes)}
    readers: dict[fx.Node, fx.Node] = {}
    for node in reversed(numbers):
        if node.users:
            readers[node] = min((readers.get(user, user) for user in node.users), key=order.__getitem__)
    for node, reader in reversed(readers.items()):
        _read_as_it_was(builder, node, nodes[order[node] : order[reader]])
        reader.prepend(node)


def _read_as_it_was(builder: GraphBuilder, node: fx.Node, passed: list[fx.Node]) -> None:
    if node.target not in READS or node.op != "call_method":
        return
    tensor = node.args[0]
    memory = storage_of(tensor)
    if not any(_may_write(builder, other, memory) for other in passed):
        return
    example = tensor.meta["example_value"].detach()
    for step, made in (("detach", example), ("clone", example.clone())):
        with builder.graph.inserting_before(node):
            tensor = builder.graph.call_method(step, (tensor,))
        tensor.meta["user_stack"], tensor.meta["stack_trace"] = node.meta["user_stack"], node.meta["stack_trace"]
        builder.describe(tensor, made, node.args[0].meta.get("device"))
    node.args = (tensor,)


def _may_write(builder: GraphBuilder, node: fx.Node, memory: int | None) -> bool:
    """An operator that stays for something else than what it writes is not known."""
    if "writes" in node.meta:
        return any(storage_of(written) == memory for written in node.meta["writes"])
    is_harmless = node in builder.setters or node.target is torch.autograd.graph.increment_version
    return node in builder.kept and not is_harmless
