"""What a program writes out in several operations, and what is recorded in their place: what all such forms have in common.

    written_attentions(graph)  ->  {the node that ends one: the form}       found once, before the first recording

The nodes `between` are left out of a recording, and `run` is called where the form ends. So nothing between its first node and its
last may write, or change torch's state: what the form reads is read later than it is written. Forms have one derivative, which
knows no other.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import fx

from dynascope.autograd_functions.differentiation import gradients

if TYPE_CHECKING:
    from dynascope.grad.record import Recorder

CASTS = frozenset({"to", "type_as", "float", "half", "bfloat16"})


class WrittenForm(Protocol):
    @property
    def between(self) -> Collection[fx.Node]:
        """The nodes that are left out."""

    def run(self, load: Callable[[fx.Node], Any], recorder: Recorder) -> torch.Tensor:
        """The result, recorded. `load` gives a node's handle."""


def is_differentiated_again(graph: fx.GraphModule) -> bool:
    """Whether the program takes gradients inside that have a history of their own."""
    return any(node.target is gradients and node.args[-1] for node in graph.graph.nodes)


def target_of(node: fx.Node) -> Any:
    """None of what is no call."""
    return node.target if node.op in ("call_function", "call_method") else None


def only_user(node: fx.Node) -> fx.Node | None:
    """None where somebody else reads it too, or it is a number or several tensors."""
    (*_, user) = node.users or (None,)
    is_read_once = len(node.users) == 1 and user.op != "output" and "writes" not in user.meta
    return user if is_read_once and isinstance(node.meta.get("example_value"), torch.Tensor) else None


def is_undisturbed(between: Collection[fx.Node], end: fx.Node) -> bool:
    """Whether all that runs from the first of the nodes to the last only computes."""
    return all(map(_only_computes, _from(between, end))) and len({"made_again" in node.meta for node in (*between, end)}) == 1


def _from(between: Collection[fx.Node], end: fx.Node) -> Iterator[fx.Node]:
    missing, node = set(between), end
    while missing:
        yield node
        node = node.prev
        missing.discard(node)


def _only_computes(node: fx.Node) -> bool:
    makes = isinstance(node.meta.get("example_value"), torch.Tensor) or "size" in node.meta or node.op == "get_attr"
    return makes and "writes" not in node.meta
