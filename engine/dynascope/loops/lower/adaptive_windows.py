"""Mean over a given number of windows: the i-th of n over s elements holds those from floor(i*s / n) to before ceil((i + 1)*s / n).

    adaptive_avg_pool2d(x f32[1, 1, 6, 5], [3, 2])  ->  loops(i0: 1, i1: 1, i2: 3, i3: 2): the mean of x[2*i2 + h, 5*i3//2 + w]

Neighbours share an element where n does not divide s. Which windows cover a place is the same question with n and s in each other's place.
"""

from __future__ import annotations

import functools

import torch

from dynascope.dataclass import dataclass
from dynascope.loops.body import NestBuilder, Scalar
from dynascope.loops.dtypes import compute_dtype
from dynascope.loops.index import Extent, Index, floor_divide
from dynascope.loops.lower.rules import Lowered, Lowering, NotLowered, Refused, rule
from dynascope.loops.lower.windows import Place, along, element, refusal, total
from dynascope.sizes import Size

aten = torch.ops.aten
_OF_VOLUMES = (aten._adaptive_avg_pool3d.default, aten._adaptive_avg_pool3d_backward.default)


@dataclass(frozen=True)
class Parting:
    """`size` elements in `count` windows."""

    size: int
    count: int

    @functools.cached_property
    def widths(self) -> frozenset[int]:
        return frozenset(-(-(i + 1) * self.size // self.count) - i * self.size // self.count for i in range(self.count))

    @property
    def covering(self) -> Parting:
        """The windows that cover each place."""
        return Parting(self.count, self.size)

    def first(self, window: Index) -> Index:
        return floor_divide(window * self.size, self.count)

    def end(self, window: Index) -> Index:
        return floor_divide(window * self.size + (self.size + self.count - 1), self.count)

    def width(self, nest: NestBuilder, window: Index, dtype: torch.dtype) -> Scalar:
        if len(self.widths) == 1:
            return nest.constant(max(self.widths), dtype)
        return (nest.index_value(self.end(window)) - nest.index_value(self.first(window))).cast(dtype)


def places_of(nest: NestBuilder, parting: Parting, dimension: int) -> list[Place]:
    """The elements of the window that the loop of `dimension` counts."""
    window = nest.indices[dimension]
    first, sure = parting.first(window), min(parting.widths)
    end = nest.index_value(parting.end(window)) if max(parting.widths) > sure else None
    return [
        Place(first + k, nest.index_value(first + k).less(end) if end is not None and k >= sure else None)
        for k in range(max(parting.widths))
    ]


@rule(aten._adaptive_avg_pool2d.default, aten._adaptive_avg_pool3d.default)
def mean(call: Lowering) -> Lowered | NotLowered:
    """Divided by the width along one dimension after the other, as eager does."""
    x, layout = call.arguments[0], call.results[0]
    partings = _partings(x.sizes, layout.shape, call)
    if (refused := refusal(call, [max(each.widths) for each in partings])) is not None:
        return refused
    nest = call.nest(layout.shape)
    dtype = compute_dtype(x.dtype)

    def value(*places: Place) -> Scalar:
        found, inside = element(nest, x, places)
        found = found.cast(dtype)
        return found if inside is None else inside.where(found, 0.0)

    found = total(along(nest, partings, places_of), value)
    for parting, window in zip(partings, nest.indices[-len(partings) :], strict=True):
        found = found / parting.width(nest, window, dtype)
    return call.finish(nest, found)


@rule(aten._adaptive_avg_pool2d_backward.default, aten._adaptive_avg_pool3d_backward.default)
def mean_backward(call: Lowering) -> Lowered | NotLowered:
    """Of each window that covers a place: its gradient, divided by the window's width along one dimension after the other."""
    gradient, x = call.arguments
    partings = _partings(x.sizes, gradient.sizes, call)
    covering = [each.covering for each in partings]
    if (refused := refusal(call, [max(each.widths) for each in covering])) is not None:
        return refused
    if call.device.type == "cpu" and any(len(each.widths) > 1 for each in covering):
        return NotLowered("windows that share elements, whose gradients the library is faster at on a processor")
    nest = call.nest(call.results[0].shape)
    dtype = compute_dtype(gradient.dtype)

    def share(*windows: Place) -> Scalar:
        found, inside = element(nest, gradient, windows)
        found = found.cast(dtype)
        for parting, window in zip(partings, windows, strict=True):
            found = found / parting.width(nest, window.index, dtype)
        return found if inside is None else inside.where(found, 0.0)

    return call.finish(nest, total(along(nest, covering, places_of), share))


def _partings(sizes: tuple[Extent, ...], counts: tuple[Extent, ...], call: Lowering) -> list[Parting]:
    along = 3 if call.operator in _OF_VOLUMES else 2
    pairs = list(zip(sizes[-along:], counts[-along:], strict=True))
    if any(isinstance(extent, Size) for pair in pairs for extent in pair):
        raise Refused("windows whose width varies")
    if any(size == 0 or count == 0 for size, count in pairs):
        raise Refused("windows of no elements")
    return [Parting(size, count) for size, count in pairs]
