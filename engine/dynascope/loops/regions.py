"""Which part of a buffer an index goes over, for each dimension: its first and last place, and its steps.

    region(8*i0 + i1 + 16, [8, 8])      i0 < 4, i1 < 7      ->      rows 2 to 5, columns 0 to 6
    apart(one, other)                                        ->      whether no element is in both
    covered(region, [one, other], buffer)                    ->      whether each of its elements is in one of the others

What is said holds for all sizes. A region may be larger than what is gone over, and never smaller; one that `is_exact` is that.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
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
    if one.last.__class__ is other.last.__class__ is one.first.__class__ is other.first.__class__ is int:  # most are, and are asked often
        if one.last < other.first or other.last < one.first:  # type: ignore[operator]
            return True
    elif known("<", one.last, other.first) or known("<", other.last, one.first):
        return True
    common = math.gcd(one.step, other.step)
    return common > 1 and (one.phase - other.phase) % common != 0


MOST_PHASES = 64
"""Steps that are looked at together when it is asked what covers a dimension."""
MOST_KINDS = 4096
"""Sets of regions that are told apart."""


def is_exact(index: Index, buffer: Buffer) -> bool:
    """Whether the index goes over each element of its region: it comes to no place twice, and to as many as there are. Not said of sizes
    that vary."""
    if not index.is_fixed or any(number.__class__ is Size for number in (*buffer.sizes, *buffer.strides)):
        return False
    if not all(isinstance(atom, Symbol) for atom, _ in index.terms):
        return False
    reach = 0
    for stride, extent in sorted((factor, atom.extent) for atom, factor in index.terms):  # type: ignore[type-var, misc]
        if stride <= reach or extent < 1:
            return False
        reach += stride * (extent - 1)  # type: ignore[operator]
    places = (_count(side) for side in region(index, buffer))
    return math.prod(atom.extent for atom, _ in index.terms) == math.prod(places)  # type: ignore[arg-type]


def _count(side: Side) -> int:
    return (side.last - side.first) // side.step + 1 if side.step else 1  # type: ignore[operator, return-value]


def covered(part: Region, by: Sequence[Region], buffer: Buffer) -> bool:
    """Whether each element of a part is in one of the regions, which have to be exact: places of a dimension that are in the same of them
    are alike, and only these kinds of places are gone through."""
    kinds = {(1 << len(by)) - 1}
    for dimension, side in enumerate(part):
        found = _kinds(side, [region[dimension] for region in by], buffer.sizes[dimension])
        if found is None or len(found) * len(kinds) > MOST_KINDS:
            return False
        kinds = {one & other for one in kinds for other in found}
    return 0 not in kinds


def _kinds(part: Side, sides: Sequence[Side], size: Extent) -> set[int] | None:
    """Of each place of a part of one dimension, the sides that it is in, as bits."""
    ends = (part.first, part.last, size, *(end for side in sides for end in (side.first, side.last)))
    period = math.lcm(*(side.step for side in (part, *sides) if side.step > 1))
    if period > MOST_PHASES or not all(isinstance(end, int) for end in ends):
        return None
    borders = {0, size, *(side.first for side in (part, *sides)), *(side.last + 1 for side in (part, *sides))}  # type: ignore[operator]
    inside = sorted(border for border in borders if 0 <= border <= size)  # type: ignore[operator, type-var]
    places = {place for border in inside for place in range(border, min(border + period, size))}  # type: ignore[call-overload, operator, type-var]
    return {sum(1 << n for n, side in enumerate(sides) if _is_in(place, side)) for place in places if _is_in(place, part)}


def _is_in(place: int, side: Side) -> bool:
    return side.first <= place <= side.last and (side.step < 2 or place % side.step == side.phase)  # type: ignore[operator]
