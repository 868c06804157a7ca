"""Numbers that a generator of Python's or NumPy's draws are drawn first, where the graph differentiates after the program drew them.

    for task in range(4):
        scale = random.uniform(1, 2); ...; autograd.grad(loss, weights, create_graph=True)
                                         all four are drawn before the rest, which stays one part

A part that differentiates must hold what it differentiates. Such a generator is another one than that of the tensors' numbers, and its
draws stay in their order among themselves; what the program's own operators would draw from it, nobody knows: these are not passed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import fx

from dynascope.autograd_functions import gradients
from dynascope.capture.host_draws import HostDraw
from dynascope.capture.operators_called import TORCHS_OWN
from dynascope.capture.random_nodes import draws_numbers

if TYPE_CHECKING:
    from dynascope.capture.graph import GraphBuilder


def drawn_first(builder: GraphBuilder) -> list[fx.Node]:
    found: list[fx.Node] = []
    for node in builder.graph.nodes:
        if isinstance(node.target, HostDraw) and not node.all_input_nodes:
            found.append(node)
        elif may_draw(builder, node):
            break
    return found


def may_draw(builder: GraphBuilder, node: fx.Node) -> bool:
    """Whether it may be a draw from the generators of such draws, or looks at them."""
    if isinstance(node.target, HostDraw):
        return True
    is_plain = node.op in ("placeholder", "call_method", "output") or node in builder.setters
    if is_plain or node not in builder.kept or "writes" in node.meta or node.target is gradients:
        return False
    own = isinstance(node.target, torch._ops.OpOverload) and node.target.namespace not in TORCHS_OWN
    return own or not draws_numbers(node)


def draw_first(builder: GraphBuilder) -> None:
    if not any(node.target is gradients for node in builder.graph.nodes):
        return
    draws = drawn_first(builder)
    first = next((node for node in builder.graph.nodes if node.op != "placeholder"), None)
    for node in draws if first is not None else ():
        if node is first:
            first = first.next
        else:
            first.prepend(node)
