"""Pooling over windows, forward and backward: each result reads its own window, each gradient the windows that cover its place.

    max_pool2d(x f32[1, 1, 8, 8], 2)  ->  loops(i0: 1, i1: 1, i2: 4, i3: 4): the greatest of x[2*i2 + h, 2*i3 + w], h and w in 0, 1

What eager adds up in float32 where values are narrower is added up so here, in its order: rows from the top, columns from the left.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch

from dynascope.dataclass import dataclass
from dynascope.loops.body import NestBuilder, Scalar
from dynascope.loops.dtypes import compute_dtype
from dynascope.loops.index import Extent, Index, floor_divide
from dynascope.loops.lower.rules import Lowered, Lowering, NotLowered, Refused, rule
from dynascope.loops.nodes import TensorView
from dynascope.sizes import Size, known

aten = torch.ops.aten
LARGEST_WINDOW = 27
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


Sides = tuple[Side, ...]


def sides_of(size: tuple[Extent, ...], counts: tuple[Extent, ...], *numbers: Any, along: int = 2) -> Sides:
    """The last `along` dimensions'. `numbers` are the operator's: widths, steps, paddings, spreads, each for one of them or for all."""
    if len(size) < along or any(isinstance(number, Size) for each in numbers for number in each):
        raise Refused("windows whose width varies")
    given = (each or numbers[0] for each in numbers)
    each_side = [tuple(each) * (along // len(each)) for each in given]
    return tuple(Side(*numbers) for numbers in zip(size[-along:], counts[-along:], *each_side, strict=True))


def along(nest: NestBuilder, sides: Sequence[Any], places: Callable[[NestBuilder, Any, int], list[Place]]) -> list[list[Place]]:
    """The places of each of the last dimensions, of which `sides` says how windows lie."""
    return [places(nest, side, len(nest.sizes) - len(sides) + k) for k, side in enumerate(sides)]


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


def refusal(call: Lowering, widths: Sequence[int]) -> NotLowered | None:
    if not call.arguments[0].dtype.is_floating_point:
        return NotLowered("pooling of integers")
    if len(widths) > 2 and call.device.type == "cpu" and call.arguments[0].dtype.itemsize < torch.float32.itemsize:
        return NotLowered("volumes of halves, which the library refuses on a processor")
    if math.prod(widths) > LARGEST_WINDOW:
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
    if (refused := refusal(call, [side.width for side in sides])) is not None:
        return refused
    nest = call.nest(layout.shape)
    rows, columns = along(nest, sides, places_in)
    width = sides[1].size
    where = _first_inside(nest, rows) * nest.number(width, torch.int64) + _first_inside(nest, columns)
    best = nest.constant(float("-inf"), compute_dtype(x.dtype))
    for row in rows:
        for column in columns:
            value, inside = element(nest, x, (row, column))
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


def element(nest: NestBuilder, x: TensorView, places: Sequence[Place]) -> tuple[Scalar, Scalar | None]:
    inside = functools.reduce(both, (place.inside for place in places))
    return nest.load(x, (*nest.indices[: -len(places)], *(place.index for place in places)), inside), inside


@rule(aten.max_pool2d_with_indices_backward.default)
def greatest_backward(call: Lowering) -> Lowered | NotLowered:
    """Of each window that covers a place: its gradient, where the greatest was here."""
    gradient, x, *numbers, _, indices = call.arguments
    sides = sides_of(x.sizes, gradient.sizes, *numbers)
    if (refused := refusal(call, [side.width for side in sides])) is not None:
        return refused
    nest = call.nest(call.results[0].shape)
    here = nest.index_value(nest.indices[-2] * sides[1].size + nest.indices[-1])

    def share(*places: Place) -> Scalar:
        value, _ = element(nest, gradient, places)
        chosen, inside = element(nest, indices, places)
        return both(inside, chosen.equal(here)).where(value.cast(compute_dtype(value.dtype)), 0.0)

    return call.finish(nest, total(along(nest, sides, windows_over), share))


def total(places: Sequence[list[Place]], share: Callable[..., Scalar]) -> Scalar:
    """Over all that are one place of each dimension."""
    return functools.reduce(operator.add, itertools.starmap(share, itertools.product(*places)))


# ---- the mean ----


@dataclass(frozen=True, slots=True)
class _Divisor:
    """What a window's sum is divided by: a number that was given, or how many elements count."""

    given: int | None
    counts_padding: bool

    def of(self, nest: NestBuilder, sides: Sides, at: Sequence[Index], dtype: torch.dtype) -> Scalar:
        if self.given is not None:
            return nest.constant(self.given, dtype)
        counts = [self._along(nest, side, index) for side, index in zip(sides, at, strict=True)]
        whole = math.prod(count for count in counts if isinstance(count, int))
        others = [count for count in counts if not isinstance(count, int)]
        if not others:
            return nest.constant(whole, dtype)
        count = functools.reduce(operator.mul, others)
        return (count if whole == 1 else count * nest.constant(whole, torch.int64)).cast(dtype)

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


_OF_VOLUMES = (aten.avg_pool3d.default, aten.avg_pool3d_backward.default)


def _mean_of(call: Lowering, first: int, sizes: tuple[Extent, ...], counts: tuple[Extent, ...]) -> tuple[Sides, _Divisor]:
    """The windows and the divisor, which stand from argument `first` on."""
    numbers = [call.operand(first, "kernel_size"), call.operand(first + 1, "stride", []), call.operand(first + 2, "padding", [0])]
    given = call.operand(first + 5, "divisor_override")
    sides = sides_of(sizes, counts, *numbers, along=3 if call.operator in _OF_VOLUMES else 2)
    if given == 0:
        raise Refused("a divisor of 0, which the library refuses")
    return sides, _Divisor(given, bool(call.operand(first + 4, "count_include_pad", True)))


@rule(aten.avg_pool2d.default, aten.avg_pool3d.default)
def mean(call: Lowering) -> Lowered | NotLowered:
    x, layout = call.arguments[0], call.results[0]
    sides, divisor = _mean_of(call, 1, x.sizes, layout.shape)
    if (refused := refusal(call, [side.width for side in sides])) is not None:
        return refused
    nest = call.nest(layout.shape)
    dtype = compute_dtype(x.dtype)
    found = nest.constant(0.0, dtype)
    for places in itertools.product(*along(nest, sides, places_in)):
        value, _ = element(nest, x, places)
        found = found + value.cast(dtype)
    return call.finish(nest, found / divisor.of(nest, sides, nest.indices[-len(sides) :], dtype))


@rule(aten.avg_pool2d_backward.default, aten.avg_pool3d_backward.default)
def mean_backward(call: Lowering) -> Lowered | NotLowered:
    gradient, x = call.arguments[:2]
    sides, divisor = _mean_of(call, 2, x.sizes, gradient.sizes)
    if (refused := refusal(call, [side.width for side in sides])) is not None:
        return refused
    nest = call.nest(call.results[0].shape)
    dtype = compute_dtype(gradient.dtype)

    def share(*places: Place) -> Scalar:
        value, inside = element(nest, gradient, places)
        covered = both(inside, _reaches(nest, sides, places))
        part = value.cast(dtype) / divisor.of(nest, sides, [place.index for place in places], dtype)
        return part if covered is None else covered.where(part, 0.0)

    return call.finish(nest, total(along(nest, sides, windows_over), share))


def _reaches(nest: NestBuilder, sides: Sides, windows: Sequence[Place]) -> Scalar | None:
    """Whether windows reach as far as the place of the nest: those of which the next begins before may not."""
    found = None
    for side, window, place in zip(sides, windows, nest.indices[-len(sides) :], strict=True):
        distance = place + side.padding + window.index * -side.step
        if not known("<", distance.bounds[1], side.width):
            found = both(found, nest.index_value(distance).less(side.width))
    return found
