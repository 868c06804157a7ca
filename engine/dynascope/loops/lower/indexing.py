"""Reads and writes at computed places: embedding, index_select, gather, index; index_put, index_add. Every index is wrapped and
checked as eager does.

embedding(w f32[V, D], t i64[T])  ->  loops(i0: T, i1: D): %1 = check_index(load t[i0]) ; load w[D*%1 + i1]
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import fx

from dynascope.loops.body import NestBuilder, Scalar
from dynascope.loops.dtypes import accumulator_dtype
from dynascope.loops.index import Extent, Index
from dynascope.loops.layouts import broadcast, is_empty
from dynascope.loops.lower.rules import Lowered, Lowering, NotLowered, rule, view_of
from dynascope.loops.nodes import ScatterNode, TensorView
from dynascope.loops.readers import Reader
from dynascope.sizes import Size, is_constant, is_relied_to_be, product, same

aten = torch.ops.aten
ZEROS = (aten.zeros.default, aten.zeros_like.default, aten.new_zeros.default)
MOST_LOOKED_AT = 1 << 25
"""Values, each looked at by each place: as many as take a GPU less time than sorting them and the launches for it."""
MOST_LOOKED_AT_A_VALUE = 1 << 18
"""Of any number of values: as many as take less time than adding up those of one place one after the other."""


def checked(call: Lowering, nest: NestBuilder, index: TensorView, at: tuple[Index, ...], extent: Extent, dimension: int,
            reader: Reader) -> Index:  # fmt: skip
    """The element of an index tensor, as an index into a dimension of `extent`. Only `x[i]` takes negative ones."""
    wraps = "negative" if reader == "index" else "never"
    return nest.check_index(call.raw_scalar(nest, index, at, index.dtype), extent, dimension, wraps, reader)


@rule(aten.embedding.default)
def embedding(call: Lowering) -> Lowered | NotLowered:
    table, index = call.arguments[:2]
    if is_empty(table):
        return NotLowered("an empty table")
    nest = call.nest(call.results[0].shape)
    row = checked(call, nest, index, nest.indices[:-1], table.sizes[0], 0, "lookup")
    return _read(call, nest, table, (row, nest.indices[-1]), (0,))


@rule(aten.index_select.default)
def index_select(call: Lowering) -> Lowered | NotLowered:
    source, dimension, index = call.arguments
    if not source.sizes or is_empty(source) or len(index.sizes) != 1:
        return NotLowered("index_select of a tensor without elements or dimensions")
    dimension %= len(source.sizes)
    nest = call.nest(call.results[0].shape)
    reader = "columns" if dimension == 1 else "lookup"
    place = checked(call, nest, index, (nest.indices[dimension],), source.sizes[dimension], dimension, reader)
    indices = (*nest.indices[:dimension], place, *nest.indices[dimension + 1 :])
    return _read(call, nest, source, indices, (dimension,))


@rule(aten.gather.default)
def gather(call: Lowering) -> Lowered | NotLowered:
    source, dimension, index = call.arguments[:3]
    if not source.sizes or is_empty(source) or not index.sizes:
        return NotLowered("gather of a tensor without elements or dimensions")
    dimension %= len(source.sizes)
    nest = call.nest(call.results[0].shape)
    reader = call.node.meta.get("reader", "gather")
    place = checked(call, nest, index, nest.indices, source.sizes[dimension], dimension, reader)
    indices = list(nest.indices)
    indices[dimension] = place
    return _read(call, nest, source, indices, (dimension,))


@rule(aten.index.Tensor, aten._unsafe_index.Tensor)
def index(call: Lowering) -> Lowered | NotLowered:
    source, indices = call.arguments
    given = _given(source, indices)
    if isinstance(given, NotLowered):
        return given
    nest = call.nest(call.results[0].shape)
    full = _full_index(call, nest, source, indices, given)
    if len(full) != len(source.sizes):
        return NotLowered("index tensors that do not fit the source")
    return _read(call, nest, source, full, given)


def _read(call: Lowering, nest: NestBuilder, source: TensorView, indices: Sequence[Index], given: Sequence[int]
          ) -> Lowered | NotLowered:  # fmt: skip
    """The elements at `indices`, of which those at `given` are checked: the flat place must hang on them."""
    if any(is_constant(source.strides[dimension], 0) for dimension in given):
        return NotLowered("an index into a dimension that repeats one row")
    flat = sum_index(indices, source.strides, source.offset)
    return call.finish(nest, nest.load_flat(source.buffer, source.dtype, flat))


def _given(source: TensorView, indices: list[TensorView | None]) -> list[int] | NotLowered:
    """The dimensions that index tensors index; they must be neighbours."""
    given = [d for d, i in enumerate(indices) if i is not None]
    if any(indices[d].dtype in (torch.bool, torch.uint8) for d in given):
        return NotLowered("a mask as index: its result's size depends on values")
    if not given or is_empty(source) or given != list(range(given[0], given[-1] + 1)):
        return NotLowered("index tensors with gaps between them")
    if given[-1] >= len(source.sizes):
        return NotLowered("index tensors that do not fit the source")
    return given


def _full_index(
    call: Lowering, nest: NestBuilder, source: TensorView, indices: list[TensorView | None], given: list[int]
) -> tuple[Index, ...]:
    """The place in each dimension of the source, for a nest over the indexed shape."""
    first, rank = given[0], max(len(indices[d].sizes) for d in given)
    at = nest.indices[first : first + rank]
    places = tuple(checked(call, nest, indices[d], at, source.sizes[d], d - first, "index") for d in given)
    return (*nest.indices[:first], *places, *nest.indices[first + rank :])


@rule(aten.index_put.default, aten._unsafe_index_put.default)
def index_put(call: Lowering) -> Lowered | NotLowered:
    base, indices, values = call.arguments[:3]
    adds = bool(call.operand(3, "accumulate", False))
    given = _given(base, indices)
    if isinstance(given, NotLowered):
        return given
    shape = broadcast([indices[d].sizes for d in given])
    sizes = (*base.sizes[: given[0]], *shape, *base.sizes[given[-1] + 1 :])
    if not _expands(values.sizes, sizes):
        return NotLowered("values that may not fit the places they go to")
    if adds and _is_summed_by_place(call, base, given, sizes):
        return _summed_by_place(call, given, shape)
    refused = _cannot_scatter(call, base, sizes, adds)
    if refused is not None:
        return refused
    nest = call.nest(sizes)
    full = _full_index(call, nest, base, indices, given)
    return _scattered(call, nest, base, full, nest.load(values, nest.indices), adds)


def _is_summed_by_place(call: Lowering, base: TensorView, given: list[int], sizes: tuple[Extent, ...]) -> bool:
    """Whether each place looks through all values for its own: of gradients on a GPU, which eager sorts and then adds up place by place,
    those of one place one after the other. That takes as long as the fullest place has values (types of tokens, buckets of distances)."""
    if call.device.type == "cpu" or not base.dtype.is_floating_point or not _is_zeros(call.node.args[0]):
        return False
    whole = product(base.sizes)
    if isinstance(whole, Size) or is_constant(whole, 0) or any(is_constant(size, 0) for size in sizes):
        return False
    places, values = product(base.sizes[dimension] for dimension in given), product(sizes)
    is_little = not isinstance(values, Size) and places * values <= MOST_LOOKED_AT
    return is_little or places * whole <= MOST_LOOKED_AT_A_VALUE


def _summed_by_place(call: Lowering, given: list[int], shape: tuple[Extent, ...]) -> Lowered:
    """zeros f32[2, D], t i64[T], v f32[T, D]  ->  loops(i0: 2, i1: D, c2: T reduced): reduce sum (v[c2, i1] where t[c2] == i0)"""
    base, indices, values = call.arguments[:3]
    rank = len(base.sizes)
    nest = call.nest((*base.sizes, *shape), frozenset(range(rank, rank + len(shape))))
    own, among = nest.indices[:rank], nest.indices[rank:]
    dtype = accumulator_dtype(base.dtype)
    value = nest.load(values, (*own[: given[0]], *among, *own[given[-1] + 1 :])).cast(dtype)
    zero = nest.constant(0, dtype)
    for dimension in given:
        place = nest.index_value(checked(call, nest, indices[dimension], among, base.sizes[dimension], dimension - given[0], "index"))
        value = place.equal(nest.index_value(own[dimension])).where(value, zero)
    return call.finish(nest, nest.reduce("sum", value))


def _is_zeros(node: object) -> bool:
    return isinstance(node, fx.Node) and (node.target in ZEROS or node.target is aten.full.default and node.args[1] == 0)


def _expands(sizes: tuple[Extent, ...], wanted: tuple[Extent, ...]) -> bool:
    """Whether a tensor of these sizes can be expanded to those wanted. No meta kernel of torch asks for it."""
    pairs = zip(reversed(sizes), reversed(wanted), strict=False)
    return len(sizes) <= len(wanted) and all(is_relied_to_be(size, 1) or same((size,), (other,)) for size, other in pairs)


@rule(aten.index_add.default)
def index_add(call: Lowering) -> Lowered | NotLowered:
    base, _, index, source = call.arguments[:4]
    if (
        not is_constant(call.operand(4, "alpha", 1), 1)
        or len(index.sizes) != 1
        or len(source.sizes) != len(base.sizes)
        or not base.sizes
    ):
        return NotLowered("an index_add that scales, or without dimensions")
    return _added(call, source.sizes)


@rule(aten.scatter_add.default, on_gpus=True)
def scatter_add(call: Lowering) -> Lowered | NotLowered:
    base, _, index, source = call.arguments[:4]
    if not base.sizes or len(index.sizes) != len(base.sizes) or len(source.sizes) != len(base.sizes):
        return NotLowered("a scatter without dimensions")
    return _added(call, index.sizes)


def _added(call: Lowering, sizes: tuple[Extent, ...]) -> Lowered | NotLowered:
    """Each element of a nest of these sizes, added where the index says that it, or all along the other dimensions, goes."""
    base, dimension, index, source = call.arguments[:4]
    refused = _cannot_scatter(call, base, sizes, True)
    if refused is not None:
        return refused
    dimension %= len(base.sizes)
    nest = call.nest(sizes)
    at = nest.indices if len(index.sizes) == len(sizes) else (nest.indices[dimension],)
    place = checked(call, nest, index, at, base.sizes[dimension], dimension, "gather")
    full = (*nest.indices[:dimension], place, *nest.indices[dimension + 1 :])
    return _scattered(call, nest, base, full, nest.load(source, nest.indices), True)


def _cannot_scatter(call: Lowering, base: TensorView, sizes: tuple[Extent, ...], adds: bool) -> NotLowered | None:
    """Half types round at each addition. On a GPU the order of additions is nobody's, where eager's is not either."""
    if call.device.type != "cpu" and not _may_be_in_any_order(call, adds):
        return NotLowered("writes to computed places on a GPU, in an order that stays")
    if any(is_constant(size, 0) for size in sizes):
        return NotLowered("nothing to write")
    if adds and base.dtype in (torch.bool, torch.float16, torch.bfloat16):
        return NotLowered(f"{base.dtype} values are added up by the library")
    if not is_constant(base.offset, 0) or not same(base.strides, call.results[0].strides):
        return NotLowered("the base is a view of other memory")
    return None


def _may_be_in_any_order(call: Lowering, adds: bool) -> bool:
    """Whether eager writes, or adds with atomic operations, in any order on a GPU. Additions of `index_put` it sorts, and all where the
    program asks for it: the flag is one of those that every entry guards."""
    adds_as_they_come = call.operator in (aten.index_add.default, aten.scatter_add.default)
    return (not adds or adds_as_they_come) and not torch.are_deterministic_algorithms_enabled()


def _scattered(
    call: Lowering, nest: NestBuilder, base: TensorView, full: tuple[Index, ...], value: Scalar, adds: bool
) -> Lowered:
    result = call.result_buffer(call.results[0])
    index_ = sum_index(full, result.strides, 0)
    value = value.cast(base.dtype)
    node = ScatterNode(
        result.name,
        nest.loops,
        nest.body,
        value.number,
        index_,
        "add" if adds else "set",
        base.buffer,
        result,
        call.origin,
    )
    return Lowered((node,), view_of(result))


@rule(aten.one_hot.default)
def one_hot(call: Lowering) -> Lowered | NotLowered:
    classes, index = call.results[0].shape[-1], call.arguments[0]
    nest = call.nest(call.results[0].shape)
    place = nest.index_value(checked(call, nest, index, nest.indices[:-1], classes, 0, "classes"))
    return call.finish(nest, place.equal(nest.index_value(nest.indices[-1])))


def sum_index(indices: Sequence[Index], strides: tuple[Extent, ...], offset: Extent) -> Index:
    """The flat place; unlike a broadcasting load, dimensions of size 1 keep their (checked) index."""
    result = Index((), offset)
    for index_, stride in zip(indices, strides, strict=True):
        result = result + index_ * stride
    return result
