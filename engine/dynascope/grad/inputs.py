"""What a graph is given: layouts of its tensors and the numbers that vary, as the placeholders describe them.

    x: f32[s0, 64], s0: int       InputFacts(Layout((s0, 64), (64, 1), ...)), s0

A placeholder's `meta["size"]` is the number that it stands for; `meta["sizes"]` and `meta["strides"]` are a tensor's, where
they vary. Placeholders that say nothing are what their example inputs are, and Python numbers among those vary.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import fx

from dynascope.autograd_functions.awaited_histories import is_leaf_of_another
from dynascope.dataclass import dataclass
from dynascope.grad.tape import META, Layout, numbers_at
from dynascope.sizes import Scope, Size, roots_of


@dataclass(frozen=True, slots=True)
class InputFacts:
    """What recording must know of a tensor that comes in. `layout` names the device that it is on."""

    layout: Layout
    offset: int
    requires_grad: bool
    is_leaf: bool
    counts_versions: bool = True
    """Inference tensors do not."""
    of_another: bool = False
    """A leaf that is a view of what requires no grad: views of it that are not recorded require none."""

    @property
    def device(self) -> torch.device:
        return self.layout.device


Input = InputFacts | Size | Any


def inputs_of(graph: fx.GraphModule, example_inputs: Sequence[Any]) -> tuple[Input, ...]:
    scope = Scope()
    placeholders = [node for node in graph.graph.nodes if node.op == "placeholder"]
    return tuple(_input(node, example, scope) for node, example in zip(placeholders, example_inputs, strict=True))


def _input(node: fx.Node, example: Any, scope: Scope) -> Input:
    if isinstance(example, torch.Tensor):
        sizes = node.meta.get("sizes") or tuple(example.shape)
        strides = node.meta.get("strides") or example.stride()
        device = node.meta["device"] if example.device == META else example.device
        layout = Layout(tuple(sizes), tuple(strides), example.dtype, device)
        offset, counts_versions = example.storage_offset(), not example.is_inference()
        return InputFacts(layout, offset, example.requires_grad, is_leaf(example), counts_versions, is_leaf_of_another(example))
    if (size := node.meta.get("size")) is not None:
        return size
    return scope.root(node.name, example) if type(example) in (int, float) else example


def is_leaf(example: torch.Tensor) -> bool:
    """Autograd refuses to say of a view that was made without gradients and written later in the program, which it was not yet
    when the graph, a part of that, begins."""
    try:
        return example.is_leaf
    except RuntimeError:
        return not example.requires_grad


def scope_of(inputs: Sequence[Input]) -> Scope | None:
    """Of the numbers that vary; None where nothing does."""
    return next((given.scope for given in inputs if isinstance(given, Size)), None)


def sizes_vary(inputs: Sequence[Input]) -> bool:
    """Whether a tensor's size does."""
    return any(isinstance(given, InputFacts) and given.layout.varies for given in inputs)


def has_integers(inputs: Sequence[Input]) -> bool:
    """Whether a Python int varies."""
    return any(isinstance(given, Size) and given.kind is int for given in inputs)


def roots_in(inputs: Sequence[Input]) -> list[str]:
    """The names of the ints that vary."""
    extents = [e for given in inputs if isinstance(given, InputFacts) for e in (*given.layout.sizes, *given.layout.strides)]
    sizes = [*extents, *(given for given in inputs if isinstance(given, Size))]
    return sorted(root.name for root in roots_of(sizes) if root.kind is int)


def in_world(inputs: Sequence[Input], values: Mapping[str, Any]) -> tuple[Input, ...]:
    """The same inputs at other sizes. A float stays a number that varies: torch carries it along."""

    def at(given: Input) -> Input:
        if isinstance(given, InputFacts):
            return replace(given, layout=numbers_at(given.layout, values))
        return numbers_at(given, values) if isinstance(given, Size) and given.kind is int else given

    return tuple(at(given) for given in inputs)
