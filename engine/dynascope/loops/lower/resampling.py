"""Interpolation: each result reads the sources that it lies between.

    upsample_bilinear2d(x f32[1, 1, 4, 4], [8, 8])  ->  loops over [1, 1, 8, 8]: four loads, weighted by where the result lies

Where a result lies in the source is computed as eager does, in the type that it computes in.
"""

from __future__ import annotations

from typing import Any

import torch

from dynascope.loops.body import NestBuilder, Scalar
from dynascope.loops.dtypes import compute_dtype
from dynascope.loops.index import Extent, Index, floor_divide
from dynascope.loops.lower.rules import Lowered, Lowering, NotLowered, rule
from dynascope.sizes import Size, is_constant

aten = torch.ops.aten


@rule(aten.upsample_bilinear2d.default)
def bilinear(call: Lowering) -> Lowered | NotLowered:
    x, aligns = call.arguments[0], bool(call.arguments[2])
    if not x.dtype.is_floating_point:
        return NotLowered("integers are rounded in a way of their own")
    if (refused := _refused(call)) is not None:
        return refused
    nest, dtype = call.nest(call.results[0].shape), compute_dtype(x.dtype)
    (upper, lower, down), (left, right, across) = (
        _neighbours(call, nest, 2 + k, aligns, call.operand(3 + k, f"scales_{side}"), dtype) for k, side in enumerate("hw")
    )

    def at(row: Index, column: Index) -> Scalar:
        return nest.load(x, (*nest.indices[:2], row, column)).cast(dtype)

    def between(row: Index) -> Scalar:
        return (1.0 - across) * at(row, left) + across * at(row, right)

    return call.finish(nest, (1.0 - down) * between(upper) + down * between(lower))


def _refused(call: Lowering) -> NotLowered | None:
    if _gathers(call):
        return NotLowered("the library is faster where rows are gathered")
    sizes, factors = (*call.arguments[0].sizes, *call.results[0].shape), [a for a in call.arguments[2:] if isinstance(a, float)]
    if any(isinstance(size, Size) for size in sizes) and not all(factor.is_integer() for factor in factors):
        return NotLowered("a factor that gives a copy of some sizes")
    return None


def _is_copied(call: Lowering, dimension: int, times: int) -> bool:
    """Whether each source is given so often, whatever factor was named: processors copy along each dimension by itself, GPUs only a
    tensor whose size stays."""
    source, target = call.arguments[0].sizes, call.results[0].shape
    if call.device.type != "cpu":
        return times == 1 and not any(isinstance(size, Size) for size in (*source, *target)) and tuple(source[2:]) == tuple(target[2:])
    return not isinstance(source[dimension], Size) and is_constant(target[dimension], source[dimension] * times)


def _gathers(call: Lowering) -> bool:
    """Whether a processor would read vectors element by element: measured at a half to a fifth of the library's speed."""
    return call.device.type == "cpu" and not is_constant(call.results[0].strides[1], 1)


def _neighbours(
    call: Lowering, nest: NestBuilder, dimension: int, aligns: bool, scale: float | None, dtype: torch.dtype
) -> tuple[Index, Index, Scalar]:
    """The source before a result and the one after it, and how far the result lies from the first, 0 to 1."""
    source, target = call.arguments[0].sizes[dimension], nest.sizes[dimension]
    place = nest.index_value(nest.indices[dimension]).cast(dtype)
    if _is_copied(call, dimension, 1):
        return nest.indices[dimension], nest.indices[dimension], nest.constant(0.0, dtype)
    where = where_of(nest, place, source, target, aligns, scale)
    if not aligns:
        where = where.apply("maximum", 0.0)
    last = nest.number(source - 1, torch.int64)
    first = where.cast(torch.int64).apply("minimum", last)
    after = (first + 1).apply("minimum", last)
    return nest.computed_index(first, source), nest.computed_index(after, source), where - first.cast(dtype)


def where_of(nest: NestBuilder, place: Scalar, source: Extent, target: Extent, aligns: bool, scale: float | None) -> Scalar:
    """Where a result lies among the sources, before it is moved to the first of them."""
    if aligns:
        return place * ratio_of(nest, source - 1, target - 1, None, place.dtype)
    return (place + 0.5) * ratio_of(nest, source, target, scale, place.dtype) - 0.5


def ratio_of(nest: NestBuilder, source: Extent, target: Extent, scale: float | None, dtype: torch.dtype) -> Scalar:
    """How far results lie apart in the source. A factor that the program gave comes before the sizes."""
    if scale is not None and not isinstance(scale, Size) and scale > 0:
        return nest.constant(_rounded(1.0 / scale, dtype), dtype)
    if isinstance(target, Size):
        return nest.number(source, dtype) / nest.number(target, dtype).apply("maximum", 1.0)  # it may be none between the corners
    if target <= 0:
        return nest.constant(0.0, dtype)
    if isinstance(source, Size):
        return nest.number(source, dtype) / nest.number(target, dtype)
    return nest.constant((torch.tensor(source, dtype=dtype) / target).item(), dtype)


def _rounded(value: float, dtype: torch.dtype) -> float:
    return torch.tensor(value, dtype=dtype).item()


def _nearest(call: Lowering) -> Lowered | NotLowered:
    """The source whose share a result begins in, or, of the exact kind, the one that it lies in the middle of."""
    if (refused := _refused(call)) is not None:
        return refused
    x = call.arguments[0]
    nest = call.nest(call.results[0].shape)
    dtype = torch.float64 if x.dtype == torch.float64 and call.device.type != "cpu" else torch.float32
    is_exact = call.operator.overloadpacket.__name__.startswith("_")
    names: dict[int, Any] = {3: ("scales",), 4: ("scales_h", "scales_w"), 5: ("scales_d", "scales_h", "scales_w")}
    places = list(nest.indices[:2])
    for number, name in enumerate(names[len(x.sizes)]):
        source, target = x.sizes[2 + number], nest.sizes[2 + number]
        if not is_exact and (times := next((n for n in (1, 2) if _is_copied(call, 2 + number, n)), 0)):
            places.append(floor_divide(nest.indices[2 + number], times))
            continue
        place = nest.index_value(nest.indices[2 + number]).cast(dtype)
        ratio = ratio_of(nest, source, target, call.operand(2 + number, name), dtype)
        where = ((place + 0.5 if is_exact else place) * ratio).cast(torch.int64)
        places.append(nest.computed_index(where.apply("minimum", nest.number(source - 1, torch.int64)), source))
    return call.finish(nest, nest.load(x, tuple(places)))


for _dimensions in (1, 2, 3):
    rule(getattr(aten, f"upsample_nearest{_dimensions}d").default)(_nearest)
    rule(getattr(aten, f"_upsample_nearest_exact{_dimensions}d").default)(_nearest)
