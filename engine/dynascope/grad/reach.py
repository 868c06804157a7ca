"""Which inputs each differentiable output was computed from: an input that no used output reaches has no gradient.

    y = w * 2 ; with no_grad(): z = x * 2 ; return y, z + w        y, z + w  reach  {w}, {w}

Eager gives None there, where a graph differentiated as a whole would give zeros: an optimizer with momentum or weight decay
changes a parameter whose gradient is zero, and leaves one without a gradient alone. What counts is torch's own autograd
graph: values that were detached, or computed without gradients, are no way from an output to an input.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch


def inputs_reached(outputs: Sequence[torch.Tensor], leaves: Sequence[Any]) -> tuple[frozenset[int], ...]:
    """For each output, the positions of the leaves that its history leads to."""
    places = {id(leaf): index for index, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)}
    known: dict[Any, frozenset[int]] = {}
    return tuple(_reached_from(output, places, known) for output in outputs)


def _reached_from(output: torch.Tensor, places: dict[int, int], known: dict[Any, frozenset[int]]) -> frozenset[int]:
    if output.grad_fn is None:
        return frozenset({places[id(output)]} if id(output) in places else ())
    pending = [(output.grad_fn, False)]
    while pending:
        node, ready = pending.pop()
        if node in known:
            continue
        variable = getattr(node, "variable", None)
        following = [after for after, _ in node.next_functions if after is not None]
        if variable is not None:
            known[node] = frozenset({places[id(variable)]} if id(variable) in places else ())
        elif ready:
            known[node] = frozenset().union(*(known[after] for after in following))
        else:
            pending.append((node, True))
            pending += [(after, False) for after in following]
    return known[output.grad_fn]


def without_unreached(gradients: tuple, given: tuple[bool, ...], sources: tuple[frozenset[int], ...]) -> tuple:
    """The gradients, None for the inputs that none of the given tangents came from."""
    if all(given):
        return gradients
    reached = frozenset().union(*(found for found, is_given in zip(sources, given, strict=True) if is_given))
    return tuple(gradient if index in reached else None for index, gradient in enumerate(gradients))
