"""Which part of a buffer an index goes over, for each dimension: its first and last place, and its steps.

    region(8*i0 + i1 + 16, [8, 8])      i0 < 4, i1 < 7      ->      rows 2 to 5, columns 0 to 6
    apart(one, other)                                        ->      whether no element is in both

What is said holds for all sizes. A region may be larger than what is gone over, and never smaller.
"""

from __future__ import annotations

import math
from functools import lru_cache

from dynascope.dataclass import dataclass
from dynascope.loops.index import Extent, Index, Symbol, affine, delinearize
from dynascope.loops.nodes import Buffer, TensorView
from dynascope.sizes import Size, is_constant, known


@dataclass(frozen=True, slots=True)
class Side:
    """One dimension: places `first` to `last`, all of them `phase` modulo `step`. A step of 0 is a single place, of 1 says nothing."""

    first: Extent
    last: Extent
    step: int = 1
    phase: int = 0


Region = tuple[Side, ...]


def region(index: Index, buffer: Buffer) -> Region:
    if index.is_fixed and not any(number.__class__ is Size for number in (*buffer.sizes, *buffer.strides)):
        return _fixed(index, buffer.sizes, buffer.strides)
    return _region(index, buffer.sizes, buffer.strides)


def _region(index: Index, sizes: tuple[Extent, ...], strides: tuple[Extent, ...]) -> Region:
    return tuple(map(_side, delinearize(index, sizes, strides)))


_fixed = lru_cache(4096)(_region)


def _side(index: Index) -> Side:
    first, last = index.bounds
    factors = [factor for _, factor in index.terms]
    if index.constant.__class__ is Size or any(factor.__class__ is Size for factor in factors):
        return Side(first, last)
    step = math.gcd(*factors)  # type: ignore[arg-type]
    return Side(first, last, step, index.constant % step if step else index.constant)  # type: ignore[operator]


def region_of(view: TensorView, buffer: Buffer) -> Region:
    """What a tensor shows of its buffer."""
    return region(index_over(view), buffer)


def index_over(view: TensorView) -> Index:
    loops = [(Symbol(f"v{d}", size), stride) for d, (size, stride) in enumerate(zip(view.sizes, view.strides, strict=True))]
    return affine({symbol: stride for symbol, stride in loops if not is_constant(symbol.extent, 1)}, view.offset)


def apart(one: Region, other: Region) -> bool:
    """Whether they certainly have no element in common."""
    return any(map(_sides_apart, one, other))


def _sides_apart(one: Side, other: Side) -> bool:
    if known("<", one.last, other.first) or known("<", other.last, one.first):
        return True
    common = math.gcd(one.step, other.step)
    return common > 1 and (one.phase - other.phase) % common != 0
