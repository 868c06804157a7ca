"""Which inputs each differentiable output was computed from: an input that no used output reaches has no gradient.

Eager gives None there, where a graph differentiated as a whole would give zeros: an optimizer with momentum or weight decay
changes a parameter whose gradient is zero, and leaves one without a gradient alone.
"""

from __future__ import annotations

import torch
from torch import fx

from dynascope.grad.pair import GradPair


def sources_of_tangents(pair: GradPair) -> tuple[frozenset[int], ...]:
    """For each tangent, the inputs with a gradient that lead to its output through numbers that can carry one."""
    nodes = list(pair.forward.graph.nodes)
    sources: dict[fx.Node, frozenset[int]] = {}
    placeholders = [node for node in nodes if node.op == "placeholder"]
    wanted = set(pair.gradient_inputs)
    for index, node in enumerate(placeholders):
        sources[node] = frozenset({index}) & wanted
    for node in nodes:
        if node.op != "placeholder":
            found = (sources[operand] for operand in node.all_input_nodes)
            sources[node] = frozenset().union(*found) if _can_carry(node) else frozenset()
    outputs = nodes[-1].args[0]
    return tuple(sources[outputs[tangent.output]] for tangent in pair.tangents)


def _can_carry(node: fx.Node) -> bool:
    """Whether a gradient could flow through the node's value. In doubt it can: zeros are given then."""
    value = node.meta.get("val")
    return not isinstance(value, torch.Tensor) or value.is_floating_point() or value.is_complex()


def without_unreached(gradients: tuple, given: tuple[bool, ...], sources: tuple[frozenset[int], ...]) -> tuple:
    """The gradients, None for the inputs that none of the given tangents came from."""
    if all(given):
        return gradients
    reached = frozenset().union(*(found for found, is_given in zip(sources, given, strict=True) if is_given))
    return tuple(gradient if index in reached else None for index, gradient in enumerate(gradients))
