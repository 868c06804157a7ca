"""Pooling over windows, forward and backward: each result reads its own window, each gradient the windows that cover its place.

    max_pool2d(x f32[1, 1, 8, 8], 2)  ->  loops(i0: 1, i1: 1, i2: 4, i3: 4): the greatest of x[2*i2 + h, 2*i3 + w], h and w in 0, 1

What eager adds up in float32 where values are narrower is added up so here, in its order: rows from the top, columns from the left.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from dynascope.loops.body import NestBuilder, Scalar
from dynascope.loops.dtypes import compute_dtype
from dynascope.loops.index import Extent, Index, floor_divide
from dynascope.loops.lower.rules import Lowered, Lowering, NotLowered, Refused, rule
from dynascope.loops.nodes import TensorView
from dynascope.sizes import Size, known

aten = torch.ops.aten
LARGEST_WINDOW = 25
"""Elements of a window that are written out one by one."""


@dataclass(frozen=True, slots=True)
class Side:
    """Windows along one dimension: `count` of them, of `width` elements `spread` apart, every `step`, the first `padding` before the
    dimension, which has `size` elements."""

    size: Extent
    count: Extent
    width: int
    step: int
    padding: int
    spread: int = 1

    @property
    def covering(self) -> int:
        """At most so many windows reach over one place."""
        return (self.width - 1) * self.spread // self.step + 1


@dataclass(frozen=True, slots=True)
class Place:
    """A position along a dimension, and what says that it lies inside; None where it always does."""

    index: Index
    inside: Scalar | None


def sides_of(size: tuple[Extent, ...], counts: tuple[Extent, ...], *numbers: Any) -> tuple[Side, Side]:
    """The last two dimensions'. `numbers` are the operator's: widths, steps, paddings, spreads, each for both or for all."""
    if len(size) < 2 or any(isinstance(number, Size) for each in numbers for number in each):
        raise Refused("windows whose width varies")
    pairs = [tuple(each) * (2 // len(each)) if each else tuple(numbers[0]) * (2 // len(numbers[0])) for each in numbers]
    upper, lower = (Side(*given) for given in zip(size[-2:], counts[-2:], *pairs, strict=True))
    return upper, lower


def places_in(nest: NestBuilder, side: Side, dimension: int) -> list[Place]:
    """The elements of the window that the loop of `dimension` counts."""
    found = []
    for number in range(side.width):
        offset = number * side.spread - side.padding
        index = nest.indices[dimension] * side.step + offset
        inside = None
        if offset < 0:
            inside = nest.index_value(index).apply("greater_equal", 0)
        if not known("<", (side.count - 1) * side.step + offset, side.size):
            inside = both(inside, nest.index_value(index).less(side.size))
        found.append(Place(index, inside))
    return found


def windows_over(nest: NestBuilder, side: Side, dimension: int) -> list[Place]:
    """The windows that may cover the place that the loop of `dimension` counts, the first one first."""
    last = floor_divide(nest.indices[dimension] + side.padding, side.step)
    found = []
    for number in reversed(range(side.covering)):
        index = last + -number
        inside = nest.index_value(index).apply("greater_equal", 0) if number else None
        if not known("<", (side.size - 1 + side.padding) // side.step - number, side.count):
            inside = both(inside, nest.index_value(index).less(side.count))
        found.append(Place(index, inside))
    return found


def both(left: Scalar | None, right: Scalar | None) -> Scalar | None:
    if left is None or right is None:
        return left if right is None else right
    return left.apply("and", right)


def _refused(call: Lowering, sides: tuple[Side, Side]) -> NotLowered | None:
    if not call.arguments[0].dtype.is_floating_point:
        return NotLowered("pooling of integers")
    if sides[0].width * sides[1].width > LARGEST_WINDOW:
        return NotLowered(f"windows of more than {LARGEST_WINDOW} elements")
    return None


# ---- the greatest ----


@rule(aten.max_pool2d_with_indices.default)
def greatest(call: Lowering) -> Lowered | NotLowered:
    """A NaN is greater than all; where it lies is the last of them, as eager has it."""
    x = call.arguments[0]
    layout = call.results[0]
    stride, padding, dilation = call.operand(2, "stride", []), call.operand(3, "padding", [0]), call.operand(4, "dilation", [1])
    sides = sides_of(x.sizes, layout.shape, call.arguments[1], stride, padding, dilation)
    if (refused := _refused(call, sides)) is not None:
        return refused
    nest = call.nest(layout.shape)
    rank = len(layout.shape)
    rows, columns = (places_in(nest, side, rank - 2 + k) for k, side in enumerate(sides))
    width = sides[1].size
    where = _first_inside(nest, rows) * nest.number(width, torch.int64) + _first_inside(nest, columns)
    best = nest.constant(float("-inf"), compute_dtype(x.dtype))
    for row in rows:
        for column in columns:
            value, inside = _element(nest, x, row, column)
            value = value.cast(best.dtype)
            wins = both(inside, value.greater(best).apply("or", value.apply("is_nan")))
            where = wins.where(nest.index_value(row.index * width + column.index), where)
            best = best.apply("maximum", value if inside is None else inside.where(value, float("-inf")))
    return call.finish(nest, best, where)


def _first_inside(nest: NestBuilder, places: list[Place]) -> Scalar:
    """Where nothing is greater than the lowest number, eager says so."""
    first = nest.index_value(places[-1].index)
    for place in reversed(places[:-1]):
        here = nest.index_value(place.index)
        first = here if place.inside is None else place.inside.where(here, first)
    return first


def _element(nest: NestBuilder, x: TensorView, row: Place, column: Place) -> tuple[Scalar, Scalar | None]:
    inside = both(row.inside, column.inside)
    return nest.load(x, (*nest.indices[:-2], row.index, column.index), inside), inside


@rule(aten.max_pool2d_with_indices_backward.default)
def greatest_backward(call: Lowering) -> Lowered | NotLowered:
    """Of each window that covers a place: its gradient, where the greatest was here."""
    gradient, x, *numbers, _, indices = call.arguments
    sides = sides_of(x.sizes, gradient.sizes, *numbers)
    if (refused := _refused(call, sides)) is not None:
        return refused
    nest = call.nest(call.results[0].shape)
    here = nest.index_value(nest.indices[-2] * sides[1].size + nest.indices[-1])

    def share(row: Place, column: Place) -> Scalar:
        value, _ = _element(nest, gradient, row, column)
        chosen, inside = _element(nest, indices, row, column)
        return both(inside, chosen.equal(here)).where(value.cast(compute_dtype(value.dtype)), 0.0)

    return call.finish(nest, _total(nest, sides, share))


def _total(nest: NestBuilder, sides: tuple[Side, Side], share: Callable[[Place, Place], Scalar]) -> Scalar:
    """Over the windows that cover a place."""
    rank = len(nest.sizes)
    rows, columns = (windows_over(nest, side, rank - 2 + k) for k, side in enumerate(sides))
    shares = [share(row, column) for row in rows for column in columns]
    total = shares[0]
    for each in shares[1:]:
        total = total + each
    return total


# ---- the mean ----


@dataclass(frozen=True, slots=True)
class _Divisor:
    """What a window's sum is divided by: a number that was given, or how many elements count."""

    given: int | None
    counts_padding: bool

    def of(self, nest: NestBuilder, sides: tuple[Side, Side], at: tuple[Index, Index], dtype: torch.dtype) -> Scalar:
        if self.given is not None:
            return nest.constant(self.given, dtype)
        rows, columns = (self._along(nest, side, index) for side, index in zip(sides, at, strict=True))
        if isinstance(rows, int) and isinstance(columns, int):
            return nest.constant(rows * columns, dtype)
        factors = (nest.constant(n, torch.int64) if isinstance(n, int) else n for n in (rows, columns))
        first, second = factors
        return (first * second).cast(dtype)

    def _along(self, nest: NestBuilder, side: Side, at: Index) -> int | Scalar:
        """Elements of the window number `at` along a side, of those that lie inside, or in the padding after it as well."""
        beyond = side.padding if self.counts_padding else 0
        start = at * side.step + -side.padding
        width = nest.constant(side.width, torch.int64)
        runs_over = not known("<=", (side.count - 1) * side.step - side.padding + side.width, side.size + beyond)
        begins_before = side.padding > 0 and not self.counts_padding
        if not runs_over and not begins_before:
            return side.width
        first = nest.index_value(start)
        end = first + width
        if runs_over:
            end = end.apply("minimum", nest.number(side.size + beyond, torch.int64))
        return end - (first.apply("maximum", nest.constant(0, torch.int64)) if begins_before else first)


def _mean_of(call: Lowering, first: int) -> tuple[list[Any], _Divisor]:
    """Widths, steps and paddings, and the divisor, which stand from argument `first` on."""
    numbers = [call.operand(first, "kernel_size"), call.operand(first + 1, "stride", []), call.operand(first + 2, "padding", [0])]
    given = call.operand(first + 5, "divisor_override")
    return numbers, _Divisor(given, bool(call.operand(first + 4, "count_include_pad", True)))


@rule(aten.avg_pool2d.default)
def mean(call: Lowering) -> Lowered | NotLowered:
    x, layout = call.arguments[0], call.results[0]
    numbers, divisor = _mean_of(call, 1)
    sides = sides_of(x.sizes, layout.shape, *numbers)
    if (refused := _refused(call, sides)) is not None:
        return refused
    nest = call.nest(layout.shape)
    rank, dtype = len(layout.shape), compute_dtype(x.dtype)
    rows, columns = (places_in(nest, side, rank - 2 + k) for k, side in enumerate(sides))
    total = nest.constant(0.0, dtype)
    for row in rows:
        for column in columns:
            value, _ = _element(nest, x, row, column)
            total = total + value.cast(dtype)
    return call.finish(nest, total / divisor.of(nest, sides, (nest.indices[-2], nest.indices[-1]), dtype))


@rule(aten.avg_pool2d_backward.default)
def mean_backward(call: Lowering) -> Lowered | NotLowered:
    gradient, x = call.arguments[:2]
    numbers, divisor = _mean_of(call, 2)
    sides = sides_of(x.sizes, gradient.sizes, *numbers)
    if (refused := _refused(call, sides)) is not None:
        return refused
    nest = call.nest(call.results[0].shape)
    dtype = compute_dtype(gradient.dtype)

    def share(row: Place, column: Place) -> Scalar:
        value, inside = _element(nest, gradient, row, column)
        covered = both(inside, _reaches(nest, sides, row, column))
        part = value.cast(dtype) / divisor.of(nest, sides, (row.index, column.index), dtype)
        return part if covered is None else covered.where(part, 0.0)

    return call.finish(nest, _total(nest, sides, share))


def _reaches(nest: NestBuilder, sides: tuple[Side, Side], row: Place, column: Place) -> Scalar | None:
    """Whether windows reach as far as the place of the nest: those of which the next begins before may not."""
    found = None
    for side, window, place in zip(sides, (row, column), nest.indices[-2:], strict=True):
        distance = place + side.padding + window.index * -side.step
        if not known("<", distance.bounds[1], side.width):
            found = both(found, nest.index_value(distance).less(side.width))
    return found
