"""What a program says of a tensor's sizes: which vary, within which bounds, and which never do.

    mark_dynamic(batch, 0, max=512)         the first size is a number of its own from the first call on
    mark_static(batch, 1)                   a new second size is a new compilation, always

The marks are kept where `torch._dynamo.mark_dynamic` and its friends keep theirs, so that either is understood.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any

import torch

from dynascope.dataclass import dataclass

DYNAMIC = ("_dynamo_dynamic_indices", "_dynamo_weak_dynamic_indices", "_dynamo_unbacked_indices")
STATIC = "_dynamo_static_indices"
TORCH_BOUNDS = "_dynamo_dynamic_range"
BOUNDS = "_dynascope_bounds"


@dataclass(frozen=True, slots=True)
class Marks:
    """Dimensions, counted from 0, and the bounds of those that have some."""

    dynamic: frozenset[int] = frozenset()
    static: frozenset[int] = frozenset()
    bounds: Mapping[int, tuple[int | None, int | None]] = field(default_factory=dict)


NONE = Marks()


def marks_of(tensor: torch.Tensor) -> Marks:
    own = tensor.__dict__
    if not own or not any(name in own for name in (*DYNAMIC, STATIC)):
        return NONE
    dynamic = frozenset().union(*(own.get(name, ()) for name in DYNAMIC))
    bounds = {each.dim: (each.min, each.max) for each in own.get(TORCH_BOUNDS, ())} | own.get(BOUNDS, {})
    return Marks(dynamic, frozenset(own.get(STATIC, ())), bounds)


def mark_dynamic(
    tensor: torch.Tensor, dim: int | Iterable[int], *, min: int | None = None, max: int | None = None
) -> None:
    """The size in `dim` differs from call to call: it is an input of what is compiled, from the first call on.

    Raises `IndexError` where the tensor has no such dimension, `ValueError` where its size now is not within the bounds.
    """
    for d in _dimensions(tensor, dim):
        size = tensor.shape[d]
        if (min is not None and size < min) or (max is not None and size > max):
            raise ValueError(f"size {d} of the tensor is {size}, which is not within {min} and {max}")
        _marked(tensor, DYNAMIC[0], d)
        if min is not None or max is not None:
            tensor.__dict__.setdefault(BOUNDS, {})[d] = (min, max)


def maybe_mark_dynamic(tensor: torch.Tensor, dim: int | Iterable[int]) -> None:
    """As `mark_dynamic`, where the program allows it: a size that must be a constant is no complaint."""
    for d in _dimensions(tensor, dim):
        _marked(tensor, DYNAMIC[1], d)


def mark_static(tensor: torch.Tensor, dim: int | Iterable[int] | None = None) -> None:
    """The size in `dim`, or all of them, is a constant of what is compiled, whatever was seen. Raises `IndexError`."""
    for d in _dimensions(tensor, range(tensor.dim()) if dim is None else dim):
        _marked(tensor, STATIC, d)


def _marked(tensor: torch.Tensor, name: str, dimension: int) -> None:
    tensor.__dict__.setdefault(name, set()).add(dimension)


def _dimensions(tensor: torch.Tensor, dim: Any) -> list[int]:
    found = []
    for d in (dim,) if isinstance(dim, int) else tuple(dim):
        if not -tensor.dim() <= d < tensor.dim():
            raise IndexError(f"the tensor has {tensor.dim()} dimensions, and none is {d}")
        found.append(d % tensor.dim())
    return found
