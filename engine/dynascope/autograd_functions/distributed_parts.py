"""A DTensor of which a graph computes this rank's part: on one side of the border stands the tensor, on the other its part.

    border = Border(tensor._spec, ways)
    parts = [border.out(tensor, way) for way in range(len(ways))]      outside, before the graph runs
    border(*parts)                                                     in the graph: a DTensor around the first of them

Gradients come back as eager's, placed as they were when they reached the DTensor in the graph. A graph hands on plain tensors, which do
not say how they are placed, so each placement has a way of its own: the first is the part itself, the others are without elements, and a
gradient leaves by the one that it is placed as.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import torch

Placements = tuple[Any, ...]


def possible_ways(placements: Placements) -> tuple[Placements, ...]:
    """How a gradient of what is placed so may be placed, the likeliest first: as it is, as sums to come of the whole, or whole."""
    module = sys.modules["torch.distributed.tensor"]
    whole, sum_to_come = module.Replicate(), module.Partial()
    own = as_gradient(placements)
    sums = tuple(sum_to_come if each.is_replicate() else each for each in own)
    everywhere = ((each,) * len(own) for each in (whole, sum_to_come))
    return tuple(dict.fromkeys((own, sums, *everywhere)))


def as_gradient(placements: Placements) -> Placements:
    """As torch places gradients itself: sums to come have whole ones."""
    whole = sys.modules["torch.distributed.tensor"].Replicate()
    return tuple(whole if each.is_partial() else each for each in placements)


class Border:
    """Of one DTensor from outside."""

    def __init__(self, specification: Any, ways: Sequence[Placements] = ()) -> None:
        self.specification = specification
        self.ways = tuple(ways) or (as_gradient(specification.placements),)
        self.__name__, self.__module__ = "around_part", __name__

    def __call__(self, *parts: torch.Tensor) -> torch.Tensor:
        return _Inside.apply(self, *parts)

    def out(self, tensor: torch.Tensor, way: int) -> torch.Tensor:
        return _Outside.apply(tensor, self, way)


class Made:
    """Gives the program the DTensor whose part a graph made. Its gradient comes in placed as it is itself."""

    def __init__(self, specification: Any) -> None:
        self.mesh, self.placements = specification.mesh, specification.placements

    def __call__(self, part: torch.Tensor, sizes: tuple[int, ...], strides: tuple[int, ...]) -> torch.Tensor:
        return _around(part, self.mesh, self.placements, sizes, strides)


def _around(part: torch.Tensor, mesh: Any, placements: Placements, sizes: Sequence[int], strides: Sequence[int]) -> Any:
    """The DTensor of which this rank has `part`; nobody is asked whether the other ranks have theirs."""
    dtensor = sys.modules["torch.distributed.tensor"].DTensor
    return dtensor.from_local(part, mesh, placements, run_check=False, shape=torch.Size(sizes), stride=tuple(strides))


def distributed(part: torch.Tensor, specification: Any, placements: Placements | None = None) -> Any:
    meta = specification.tensor_meta
    return _around(part, specification.mesh, placements or specification.placements, meta.shape, meta.stride)


class _Outside(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, tensor: Any, border: Border, way: int) -> torch.Tensor:
        context.border, context.way = border, way
        context.set_materialize_grads(False)
        part = tensor._local_tensor
        if way == 0:
            return part.view_as(part)
        is_cut = any(each.is_shard() for each in border.ways[way])
        return part.new_empty(()).expand(part.shape if is_cut else tensor.shape)

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor | None) -> Any:
        border = context.border
        return None if gradient is None else distributed(gradient, border.specification, border.ways[context.way]), None, None


class _Inside(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, border: Border, part: torch.Tensor, *others: torch.Tensor) -> torch.Tensor:
        context.border, context.count = border, 1 + len(others)
        context.set_materialize_grads(False)
        return distributed(part, border.specification)

    @staticmethod
    def backward(context: Any, gradient: Any) -> Any:
        given: list[torch.Tensor | None] = [None] * context.count
        ways = context.border.ways[: context.count]
        if gradient is not None:
            if gradient.placements not in ways:
                gradient = gradient.redistribute(placements=ways[0])
            given[ways.index(gradient.placements)] = gradient.to_local()
        return None, *given
