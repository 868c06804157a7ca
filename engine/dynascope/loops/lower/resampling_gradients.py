"""Gradients of interpolation, and bicubic interpolation: along each dimension a result is a sum of sources, by where it lies.

    upsample_bicubic2d_backward(gradient f32[16, 64, 256, 256], [256, 256], [16, 64, 128, 128])
        ->  shares f32[128, 10]            how much of each source is in the results around it
            rows f32[16, 64, 128, 256]     of each source row: the sum of the results' gradients, by its share
            f32[16, 64, 128, 128]          the same along the columns

The library adds what each result gives to its sources in memory, one by one. A source asks the results that may hold it instead: which they
are follows from the sizes, with room for the rounding of where they lie.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

import torch

from dynascope.loops.body import NestBuilder, Scalar
from dynascope.loops.dtypes import compute_dtype
from dynascope.loops.index import Extent, Index, constant, floor_divide
from dynascope.loops.layouts import row_major
from dynascope.loops.lower.resampling import where_of
from dynascope.loops.lower.rules import Lowered, Lowering, NotLowered, fit_strides, rule, view_of
from dynascope.loops.nodes import Buffer, LoopNode, Result, TensorView
from dynascope.sizes import Size, divided, is_constant, is_multiple, known, product

aten = torch.ops.aten

MOST_SHARES = 28
"""Results that are asked by a source along one dimension: more of them are more steps than the library takes."""
STEEPNESS = -0.75
"""Of the cubic curve, as torch has it."""

Taps = list[tuple[Scalar, Scalar]]
"""The sources of a result along one dimension, int64, each with its weight."""


def _cubic(where: Scalar, source: Extent) -> Taps:
    first = where.apply("floor")
    after = where - first
    weights = (_far(after + 1.0), _near(after), _near(1.0 - after), _far(2.0 - after))
    at = first.cast(torch.int64)
    last = where.builder.number(source - 1, torch.int64)
    return [((at + (k - 1)).apply("maximum", 0).apply("minimum", last), weight) for k, weight in enumerate(weights)]


def _near(x: Scalar) -> Scalar:
    """Of a source that lies less than one away."""
    return (x * (STEEPNESS + 2.0) - (STEEPNESS + 3.0)) * x * x + 1.0


def _far(x: Scalar) -> Scalar:
    """Of one that lies between one and two away."""
    return ((x * STEEPNESS - 5.0 * STEEPNESS) * x + 8.0 * STEEPNESS) * x - 4.0 * STEEPNESS


def _linear(where: Scalar, source: Extent) -> Taps:
    where = where.apply("maximum", 0.0)
    last = where.builder.number(source - 1, torch.int64)
    first = where.cast(torch.int64).apply("minimum", last)
    after = where - first.cast(where.dtype)
    return [(first, 1.0 - after), ((first + 1).apply("minimum", last), after)]


@rule(aten.upsample_bicubic2d.default)
def bicubic(call: Lowering) -> Lowered | NotLowered:
    """Along the columns first, as the library does: each dimension by itself takes four steps, both at once sixteen."""
    x, aligns = call.arguments[0], bool(call.arguments[2])
    sources, targets = x.sizes[2:], call.results[0].shape[2:]
    if (refused := _refused(x.dtype, sources, targets, call)) is not None:
        return refused
    nodes: list[LoopNode] = []
    for side in (1, 0):
        source, target, dtype = sources[side], targets[side], compute_dtype(x.dtype)
        nest = call.nest((*x.sizes[: 2 + side], target, *x.sizes[3 + side :]))
        place = nest.index_value(nest.indices[2 + side]).cast(dtype)
        taps = _cubic(where_of(nest, place, source, target, aligns, _scale(call, 3, side)), source)
        total = _total(_at(nest, x, 2 + side, nest.computed_index(tap, source), dtype) * weight for tap, weight in taps)
        x = _finished(call, nest, total, nodes, is_last=side == 0)
    return Lowered(tuple(nodes), x)


def _at(nest: NestBuilder, tensor: TensorView, dimension: int, place: Index, dtype: torch.dtype) -> Scalar:
    """The element at a place along a dimension, and where the loops are along the others."""
    return nest.load(tensor, (*nest.indices[:dimension], place, *nest.indices[dimension + 1 :])).cast(dtype)


def _finished(call: Lowering, nest: NestBuilder, total: Scalar, nodes: list[LoopNode], is_last: bool) -> TensorView:
    """What the loops make, in memory: the call's own result in the end, wider numbers between."""
    if is_last:
        finished = call.finish(nest, total)
        nodes.extend(finished.nodes)
        return finished.value
    buffer = Buffer(call.new_name(f"{call.node.name}_half"), total.dtype, call.device, nest.sizes, row_major(nest.sizes))
    stored = Result(buffer, total.number, fit_strides(nest, buffer))
    nodes.append(LoopNode(buffer.name, nest.loops, nest.body, (stored,), call.origin))
    return view_of(buffer)


def _total(values: Iterable[Scalar]) -> Scalar:
    first, *rest = values
    for value in rest:
        first = first + value
    return first


def _scale(call: Lowering, position: int, side: int) -> float | None:
    return call.operand(position + side, ("scales_h", "scales_w")[side])


def _refused(dtype: torch.dtype, sources: Sequence, targets: Sequence, call: Lowering) -> NotLowered | None:
    if not dtype.is_floating_point:
        return NotLowered("integers are rounded in a way of their own")
    pairs = list(zip(sources, targets, strict=True))
    if not any(known("!=", *pair) for pair in pairs) or any(is_constant(size, 0) for pair in pairs for size in pair):
        return NotLowered("a copy, at all sizes or some")
    are_more = known(">", product(targets), product(sources)) or all(known("<=", *pair) for pair in pairs)
    if call.device.type == "cpu" and not are_more:
        return NotLowered("fewer results than sources, which the library is faster at on a processor")
    return None


def _gradient_rule(taps: Callable[[Scalar, int], Taps], reach: int) -> Callable[[Lowering], Lowered | NotLowered]:
    """`reach`: a result holds sources that lie less than so far from it."""

    def apply(call: Lowering) -> Lowered | NotLowered:
        gradient, _, sizes, aligns = call.arguments[:4]
        sources, targets = call.results[0].shape[2:], gradient.sizes[2:]
        if (refused := _refused(gradient.dtype, sources, targets, call)) is not None:
            return refused
        dtype = compute_dtype(gradient.dtype)
        nodes: list[LoopNode] = []
        for side in range(2):
            source, target, scale = sources[side], targets[side], _scale(call, 4, side)
            if scale is not None and not bool(aligns) and scale > 0 and not _is_told(scale, source, target):
                return NotLowered("a factor that the sizes do not say")
            if (shares := _Shares.between(source, target, bool(aligns), reach)) is None:
                return NotLowered("a factor between sizes that vary which varies too")
            if shares.count > MOST_SHARES:
                return NotLowered(f"sources of which more than {MOST_SHARES} results hold a part along one dimension")
            node, table = _table(call, shares, scale, taps, dtype, side)
            nodes.append(node)
            gradient = _gathered(call, nodes, gradient, table, shares, 2 + side, dtype)
        return Lowered(tuple(nodes), gradient)

    return apply


def _is_told(scale: float, source: Extent, target: Extent) -> bool:
    """Whether sizes say a factor, whatever they are."""
    if isinstance(source, Size):
        return scale.is_integer() and is_constant(divided(target, source)[0], int(scale)) and is_multiple(target, source)
    return scale * source == target


class _Shares:
    """Which results may hold a source: `count` of them, from `first(source)` on.

    A result r lies at (r + 1/2) * under / over - 1/2, where corners are aligned at r * under / over; it holds the sources less than `reach`
    away from there.
    """

    ROOM = 1 / 16
    """More than rounding moves a result."""

    @classmethod
    def between(cls, source: Extent, target: Extent, aligns: bool, reach: int) -> _Shares | None:
        """None where how many they are varies."""
        if not isinstance(source, Size) and not isinstance(target, Size):
            return cls(source, target, aligns, reach, *((target - 1, max(source - 1, 1)) if aligns else (target, source)))
        factor, rest = divided(target, source)
        is_whole = isinstance(factor, int) and is_constant(rest, 0) and not aligns
        return cls(source, target, aligns, reach, factor, 1) if is_whole else None

    def __init__(self, source: Extent, target: Extent, aligns: bool, reach: int, over: int, under: int) -> None:
        self.source, self.target, self.aligns, self.over, self.under = source, target, aligns, over, under
        offset, away = 0.0 if aligns else 0.5, reach + self.ROOM
        self.before = math.floor((offset - away) * self.over / self.under - offset)
        self.count = math.floor(2 * away * self.over / self.under) + 3

    def first(self, source: Index) -> Index:
        return floor_divide(source * self.over, self.under) + self.before


def _table(
    call: Lowering, shares: _Shares, scale: float | None, taps: Callable[[Scalar, int], Taps], dtype: torch.dtype, side: int
) -> tuple[LoopNode, TensorView]:
    """How much of each source is in each of the results that may hold it: 0 in others, and in those that do not exist."""
    nest = call.nest((shares.source, shares.count))
    source, number = nest.indices
    result = nest.index_value(shares.first(source) + number)
    own = nest.index_value(source)
    where = where_of(nest, result.cast(dtype), shares.source, shares.target, shares.aligns, scale)
    share = _total(place.apply("equal", own).where(weight, 0.0) for place, weight in taps(where, shares.source))
    exists = result.apply("greater_equal", 0).apply("and", result.less(shares.target))
    buffer = Buffer(call.new_name(f"{call.node.name}_shares_{side}"), dtype, call.device, nest.sizes, row_major(nest.sizes))
    stored = Result(buffer, exists.where(share, 0.0).number, fit_strides(nest, buffer))
    return LoopNode(buffer.name, nest.loops, nest.body, (stored,), call.origin), view_of(buffer)


def _gathered(
    call: Lowering, nodes: list[LoopNode], gradient: TensorView, table: TensorView, shares: _Shares, dimension: int, dtype: torch.dtype
) -> TensorView:
    """Of each source along a dimension what the results' gradients give it. The last one is what the call returns."""
    sizes = (*gradient.sizes[:dimension], shares.source, *gradient.sizes[dimension + 1 :])
    nest = call.nest(sizes)
    source, last = nest.indices[dimension], nest.number(shares.target - 1, torch.int64)

    def given(number: int) -> Scalar:
        result = nest.index_value(shares.first(source) + number).apply("maximum", 0).apply("minimum", last)
        whole = _at(nest, gradient, dimension, nest.computed_index(result, shares.target), dtype)
        return whole * nest.load(table, (source, constant(number)))

    return _finished(call, nest, _total(map(given, range(shares.count))), nodes, is_last=dimension == len(sizes) - 1)


rule(aten.upsample_bicubic2d_backward.default)(_gradient_rule(_cubic, 2))
rule(aten.upsample_bilinear2d_backward.default, on_gpus=True)(_gradient_rule(_linear, 1))
