"""Places in a dimension as Python gives them: negative ones count from the end, slices stop at the ends.

clamped(-3, s0)   ->  s0 - 3        where s0 is at least 3 (relied on, where expressions do not tell)
"""

from __future__ import annotations

from typing import Any

from dynascope.loops.body import Refused
from dynascope.loops.index import Extent


def wrapped(place: Any, size: Extent) -> Extent:
    """An index into a dimension; eager has checked that it lies in it."""
    return place + size if place < 0 else place


def inside(place: Any, size: Extent) -> Extent:
    """An index that is written to. That it lies in the dimension is relied on: what writes nothing raises nothing."""
    place = wrapped(place, size)
    if not (place >= 0 and place < size):
        raise Refused("a place outside the tensor")
    return place


def clamped(start: Any, size: Extent) -> Extent:
    """Where a slice begins."""
    if start is None:
        return 0
    start = wrapped(start, size)
    if start < 0:
        return 0
    return size if start > size else start
