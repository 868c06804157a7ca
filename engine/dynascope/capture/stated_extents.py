"""Extents that are one number at each call, told by the operations themselves: nothing is run at other sizes.

    linear(x, w)             along the last dimension: as many as w has rows
    x.view(n, t, 4, -1)      4 along the third
    a.transpose(1, 2)        what the operand has along the other one

So a program that goes through `self.qkv(x).chunk(3, -1)` does not have all before it run again: there are three parts. What is
not told here is asked (`extents`).
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

# Methods of torch.Tensor are named in a graph, functions stand there themselves.
LINEAR = (torch.nn.functional.linear,)
VIEWS = ("view", "reshape", torch.reshape)
TRANSPOSED = ("transpose", torch.transpose)
SPLITS = ("split", torch.split, torch.Tensor.split)
PARTS = (*SPLITS, "chunk", torch.chunk)


def parts_are_stated(node: fx.Node) -> bool:
    """Whether an operation cuts its operand into as many parts at each call."""
    given = _cut(node)
    return given is not None and extent_is_stated(given[0], given[1])


def extent_is_stated(node: fx.Node, dimension: int) -> bool:
    """Whether a tensor is as long along `dimension`, which may count from the end, at each call."""
    while True:
        example: Any = node.meta.get("example_value")
        if not isinstance(example, torch.Tensor) or not -example.dim() <= dimension < example.dim():
            return False
        dimension %= example.dim()
        if node.op == "placeholder":
            sizes = node.meta.get("sizes")
            return sizes is None or type(sizes[dimension]) is int
        first, *others = *node.args, None
        if not isinstance(first, fx.Node) or node.kwargs:
            return False
        if node.target in LINEAR and dimension == example.dim() - 1 and _is_matrix(others[0]):
            node, dimension = others[0], 0
        elif node.target in VIEWS:
            sizes = _sequence(others)
            return len(sizes) == example.dim() and type(sizes[dimension]) is int and sizes[dimension] >= 0
        elif node.target in TRANSPOSED and len(others) > 1 and all(type(each) is int for each in others[:2]):
            one, other = (each % example.dim() for each in others[:2])
            node, dimension = first, {one: other, other: one}.get(dimension, dimension)
        elif node.target is operator.getitem and (cut := _cut(first)) is not None:
            node = cut[0]
        else:
            return False


def _is_matrix(node: Any) -> bool:
    example = node.meta.get("example_value") if isinstance(node, fx.Node) else None
    return isinstance(example, torch.Tensor) and example.dim() == 2


def _cut(node: fx.Node) -> tuple[fx.Node, int] | None:
    """What an operation cuts into parts of constant sizes, or a constant number of them, and along which dimension."""
    tensor, *numbers = *node.args, None
    dimension = node.kwargs.get("dim", numbers[1] if len(numbers) > 2 else 0)
    is_plain = node.target in PARTS and isinstance(tensor, fx.Node) and node.kwargs.keys() <= {"dim"} and type(dimension) is int
    return (tensor, dimension) if is_plain and all(type(each) is int for each in _sequence(numbers[:1])) else None


def _sequence(given: Sequence[Any]) -> Sequence[Any]:
    """Sizes are given one by one or together."""
    return given[0] if given and isinstance(given[0], (list, tuple)) else [each for each in given if each is not None]
