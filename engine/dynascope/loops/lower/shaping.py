"""Copies that rearrange: cat, pad, flip, roll, repeat, shuffles, slice_scatter. Reads at other places, guarded where they miss."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from dynascope.loops.body import NestBuilder, Scalar
from dynascope.loops.index import Extent, Index, delinearize, floor_divide, linear, modulo
from dynascope.loops.layouts import is_empty, row_major
from dynascope.loops.lower.rules import Lowered, Lowering, NotLowered, fit_strides, rule, view_of
from dynascope.loops.lower.slices import clamped, inside
from dynascope.loops.lower.views import is_view
from dynascope.loops.nodes import LoopNode, Result, TensorView
from dynascope.sizes import is_constant, known, nominal, same

aten = torch.ops.aten
MOST_PARTS = 16
MOST_TOGETHER = 4
"""Parts that one loop writes."""
_PRODUCTS = frozenset(
    [
        aten.mm.default,
        aten.addmm.default,
        aten.bmm.default,
        aten.baddbmm.default,
        aten.mv.default,
        aten.convolution.default,
        aten.convolution_backward.default,
    ]
)
MOST_ALONG_LANES = 3
SHORT = 16
"""Elements of a part: fewer fill no vector, and the library copies them together. Single ones are lanes in turns of several vectors."""


@rule(aten.reshape.default, aten.view_copy.default, aten.flatten.using_ints)
def reshape(call: Lowering) -> Lowered:
    """A copy in row-major order (the views among reshapes never come here)."""
    source = call.arguments[0]
    nest = call.nest(call.results[0].shape)
    flat = linear(nest.indices, row_major(nest.sizes))
    return call.finish(nest, nest.load(source, delinearize(flat, source.sizes, row_major(source.sizes))))


@rule(aten.cat.default)
def concatenate(call: Lowering) -> Lowered | NotLowered:
    """Each part is read where the position lies in it; the loads of the others are guarded off."""
    parts = [part for part in call.arguments[0] if not (len(part.sizes) == 1 and is_constant(part.sizes[0], 0))]
    dimension = call.operand(1, "dim", 0) % len(call.results[0].shape)
    if len(parts) > MOST_PARTS:
        return NotLowered(f"more than {MOST_PARTS} parts")
    are_equal = 1 < len(parts) <= MOST_TOGETHER and all(same(part.sizes, parts[0].sizes) for part in parts) and _goes_to_memory(call.node)
    if call.device.type == "cpu" and len(parts) > MOST_ALONG_LANES and is_constant(call.results[0].strides[dimension], 1):
        width = parts[0].sizes[dimension]
        if not are_equal or not (is_constant(width, 1) or nominal(width) >= SHORT):
            return NotLowered(f"more than {MOST_ALONG_LANES} parts side by side, which lanes of one vector would look for one by one")
    if are_equal:
        return _side_by_side(call, parts, dimension)
    nest = call.nest(call.results[0].shape)
    place = nest.index_value(nest.indices[dimension])
    dtype = call.results[0].dtype
    value: Scalar | None = None
    starts = [sum(part.sizes[dimension] for part in parts[:k]) for k in range(len(parts))]
    for part, start in reversed(list(zip(parts, starts, strict=True))):
        if is_constant(part.sizes[dimension], 0):
            continue
        inside = _between(place, start, start + part.sizes[dimension], nest.sizes[dimension])
        indices = _moved(nest, dimension, nest.indices[dimension] + -start)
        x = nest.load(part, indices, inside).cast(dtype)
        value = x if value is None else place.less(start + part.sizes[dimension]).where(x, value)
    return NotLowered("nothing to join") if value is None else call.finish(nest, value)


def _goes_to_memory(node: fx.Node) -> bool:
    """Whether library calls or the caller read it: no kernel could read its parts instead."""
    return all(
        user.op == "output" or user.target in _PRODUCTS or is_view(user.target) and _goes_to_memory(user) for user in node.users
    )


def _side_by_side(call: Lowering, parts: list[TensorView], dimension: int) -> Lowered:
    """Loops over one part, which leave an element of each: what the parts share is computed once, and nothing is looked for."""
    nest = call.nest(parts[0].sizes)
    buffer = call.result_buffer(call.results[0])
    strides = fit_strides(nest, buffer)
    shift = parts[0].sizes[dimension] * buffer.strides[dimension]
    scalars = [nest.load(part, nest.indices).cast(buffer.dtype) for part in parts]
    results = tuple(Result(buffer, scalar.number, strides, shift * number) for number, scalar in enumerate(scalars))
    return Lowered((LoopNode(buffer.name, nest.loops, nest.body, results, call.origin),), view_of(buffer))


@rule(aten.constant_pad_nd.default)
def pad(call: Lowering) -> Lowered | NotLowered:
    source, padding = call.arguments[:2]
    value = call.operand(2, "value", 0)
    nest = call.nest(call.results[0].shape)
    indices, inside = list(nest.indices), None
    for k in range(len(padding) // 2):
        dimension, before = len(source.sizes) - 1 - k, padding[2 * k]
        if is_constant(before, 0) and is_constant(padding[2 * k + 1], 0):
            continue
        place = nest.index_value(nest.indices[dimension])
        fits = _between(place, before, before + source.sizes[dimension], nest.sizes[dimension])
        inside = _and(inside, fits)
        indices[dimension] = nest.indices[dimension] + -before
    if is_empty(source):
        return NotLowered("padding of an empty tensor")
    x = nest.load(source, tuple(indices), inside)
    return call.finish(nest, x if inside is None else inside.where(x, value))


@rule(aten.flip.default)
def flip(call: Lowering) -> Lowered:
    source, dimensions = call.arguments
    nest = call.nest(call.results[0].shape)
    indices = list(nest.indices)
    for dimension in {d % len(indices) for d in dimensions} if indices else ():
        indices[dimension] = indices[dimension] * -1 + (nest.sizes[dimension] - 1)
    return call.finish(nest, nest.load(source, tuple(indices)))


@rule(aten.roll.default)
def roll(call: Lowering) -> Lowered | NotLowered:
    source, shifts = call.arguments[:2]
    dimensions = call.operand(2, "dims", [])
    if not dimensions or is_empty(source):
        return NotLowered("a roll of the flattened tensor")
    nest = call.nest(call.results[0].shape)
    indices = list(nest.indices)
    for shift, dimension in zip(shifts, dimensions, strict=True) if indices else ():
        size = nest.sizes[dimension]
        indices[dimension] = modulo(indices[dimension] + -shift % size, size)
    return call.finish(nest, nest.load(source, tuple(indices)))


@rule(aten.repeat.default)
def repeat(call: Lowering) -> Lowered | NotLowered:
    source = call.arguments[0]
    if is_empty(source):
        return NotLowered("a repetition of an empty tensor")
    nest = call.nest(call.results[0].shape)
    own = nest.indices[len(nest.indices) - len(source.sizes) :]
    indices = tuple(modulo(index, size) for index, size in zip(own, source.sizes, strict=True))
    return call.finish(nest, nest.load(source, indices))


@rule(aten.pixel_shuffle.default)
def pixel_shuffle(call: Lowering) -> Lowered | NotLowered:
    """Each channel's rows and columns are of `factor` times `factor` channels."""
    source, factor = call.arguments
    nest = call.nest(call.results[0].shape)
    *batch, channel, row, column = nest.indices
    among = channel * (factor * factor) + modulo(row, factor) * factor + modulo(column, factor)
    return call.finish(nest, nest.load(source, (*batch, among, floor_divide(row, factor), floor_divide(column, factor))))


@rule(aten.pixel_unshuffle.default)
def pixel_unshuffle(call: Lowering) -> Lowered | NotLowered:
    source, factor = call.arguments
    nest = call.nest(call.results[0].shape)
    *batch, channel, row, column = nest.indices
    down, across = modulo(floor_divide(channel, factor), factor), modulo(channel, factor)
    places = (floor_divide(channel, factor * factor), row * factor + down, column * factor + across)
    return call.finish(nest, nest.load(source, (*batch, *places)))


@rule(aten.channel_shuffle.default)
def channel_shuffle(call: Lowering) -> Lowered | NotLowered:
    source, groups = call.arguments
    nest = call.nest(call.results[0].shape)
    first, channel, *rest = nest.indices
    among = modulo(channel, groups) * (source.sizes[1] // groups) + floor_divide(channel, groups)
    return call.finish(nest, nest.load(source, (first, among, *rest)))


@rule(aten.slice_scatter.default)
def slice_scatter(call: Lowering) -> Lowered | NotLowered:
    base, source = call.arguments[:2]
    dimension = call.operand(2, "dim", 0) % len(base.sizes)
    size = base.sizes[dimension]
    start, end, step = (
        call.operand(3 + k, n, d) for k, (n, d) in enumerate((("start", 0), ("end", size), ("step", 1)))
    )
    if step != 1 or is_empty(source):
        return NotLowered("a slice with a step")
    start = clamped(start, size)
    nest = call.nest(call.results[0].shape)
    return _patched(call, nest, base, source, dimension, start)


@rule(aten.select_scatter.default)
def select_scatter(call: Lowering) -> Lowered:
    base, source, dimension, place = call.arguments
    dimension, nest = dimension % len(base.sizes), call.nest(call.results[0].shape)
    row = nest.index_value(nest.indices[dimension])
    is_there = row.equal(inside(place, base.sizes[dimension]))
    rest = nest.indices[:dimension] + nest.indices[dimension + 1 :]
    return call.finish(
        nest, is_there.where(nest.load(source, rest, is_there).cast(base.dtype), nest.load(base, nest.indices))
    )


def _patched(call: Lowering, nest: NestBuilder, base: Any, source: Any, dimension: int, start: Extent) -> Lowered:
    place = nest.index_value(nest.indices[dimension])
    inside = _between(place, start, start + source.sizes[dimension], nest.sizes[dimension])
    original = nest.load(base, nest.indices)
    new = nest.load(source, _moved(nest, dimension, nest.indices[dimension] + -start), inside).cast(base.dtype)
    return call.finish(nest, new if inside is None else inside.where(new, original))


def _between(place: Scalar, start: Extent, end: Extent, size: Extent) -> Scalar | None:
    """start <= place < end, leaving out what always holds."""
    test = None if known("<=", start, 0) else place.apply("greater_equal", start)
    return test if known(">=", end, size) else _and(test, place.less(end))


def _and(left: Scalar | None, right: Scalar | None) -> Scalar | None:
    if left is None or right is None:
        return left if right is None else right
    return left.apply("and", right)


def _moved(nest: NestBuilder, dimension: int, index: Index) -> tuple[Index, ...]:
    return (*nest.indices[:dimension], index, *nest.indices[dimension + 1 :])
