"""Padding with what lies at the border: mirrored (`reflection_pad`), or its last element again (`replication_pad`).

    reflection_pad1d(x f32[2, 8], [3, 3])  ->  loops(i0: 2, i1: 14): load x at 7 - |7 - |i1 - 3||

The gradient of an element adds up what its copies got, in no order that eager has: GPUs add them up as they come.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import torch

from dynascope.dataclass import dataclass
from dynascope.loops.body import NestBuilder, Scalar
from dynascope.loops.dtypes import compute_dtype
from dynascope.loops.index import Extent, Index
from dynascope.loops.layouts import is_empty
from dynascope.loops.lower.rules import Lowered, Lowering, NotLowered, rule
from dynascope.loops.lower.windows import both
from dynascope.sizes import Size

aten = torch.ops.aten


@dataclass(frozen=True, slots=True)
class Border:
    """What one dimension gets before it; `size` elements of it are there."""

    dimension: int
    size: Extent
    before: int
    after: int


def _sides(sizes: tuple[Extent, ...], padding: Any) -> list[Border] | NotLowered:
    if any(isinstance(each, Size) or each < 0 for each in padding):
        return NotLowered("a padding that varies, or cuts")
    rank = len(sizes)
    pairs = list(zip(padding[::2], padding[1::2], strict=True))
    return [Border(rank - 1 - k, sizes[rank - 1 - k], *pair) for k, pair in enumerate(pairs)]


def _padded(call: Lowering) -> Lowered | NotLowered:
    source, padding = call.arguments
    sides = _sides(source.sizes, padding)
    if isinstance(sides, NotLowered):
        return sides
    if is_empty(source):
        return NotLowered("padding of an empty tensor")
    mirrors = call.operator.overloadpacket.__name__.startswith("reflection")
    nest = call.nest(call.results[0].shape)
    indices = list(nest.indices)
    for side in sides:
        if side.before == side.after == 0:
            continue
        place = nest.index_value(nest.indices[side.dimension] + -side.before)
        last = nest.number(side.size - 1, torch.int64)
        if mirrors:
            place = last - (last - place.apply("absolute")).apply("absolute")
        else:
            place = place.apply("maximum", nest.constant(0, torch.int64)).apply("minimum", last)
        indices[side.dimension] = nest.computed_index(place, side.size)
    return call.finish(nest, nest.load(source, tuple(indices)))


def _mirrored_back(call: Lowering) -> Lowered | NotLowered:
    gradient, source, padding = call.arguments
    sides = _sides(source.sizes, padding)
    if isinstance(sides, NotLowered):
        return sides
    if is_empty(source) or not gradient.dtype.is_floating_point:
        return NotLowered("a gradient of nothing")
    nest = call.nest(call.results[0].shape)
    dtype = compute_dtype(gradient.dtype)
    total: Scalar | None = None
    for places in product(*(_copies(nest, side) for side in sides)):
        indices, inside = list(nest.indices), None
        for side, (index, test) in zip(sides, places, strict=True):
            indices[side.dimension], inside = index, both(inside, test)
        value = nest.load(gradient, tuple(indices), inside).cast(dtype)
        value = value if inside is None else inside.where(value, 0.0)
        total = value if total is None else total + value
    assert total is not None
    return call.finish(nest, total)


def _copies(nest: NestBuilder, side: Border) -> list[tuple[Index, Scalar | None]]:
    """Where an element of the source lies in the padded one: itself, and its mirror images on both sides."""
    index = nest.indices[side.dimension]
    here, found = nest.index_value(index), [(index + side.before, None)]
    if side.before:
        is_near = here.apply("greater_equal", 1).apply("and", here.apply("less_equal", side.before))
        found.append((index * -1 + side.before, is_near))
    if side.after:
        distance = nest.index_value(index * -1 + (side.size - 1))
        is_near = distance.apply("greater_equal", 1).apply("and", distance.apply("less_equal", side.after))
        found.append((index * -1 + (2 * side.size - 2 + side.before), is_near))
    return found


for _dimensions in (1, 2, 3):
    rule(getattr(aten, f"reflection_pad{_dimensions}d").default)(_padded)
    rule(getattr(aten, f"replication_pad{_dimensions}d").default)(_padded)
    rule(getattr(aten, f"reflection_pad{_dimensions}d_backward").default)(_mirrored_back)
