"""Softmax, layer and group norm: several reductions over the same rows and what follows them, in one node each."""

from __future__ import annotations

import torch

from dynascope.loops.body import NestBuilder, Scalar
from dynascope.loops.dtypes import compute_dtype
from dynascope.loops.index import linear
from dynascope.loops.layouts import is_empty, row_major
from dynascope.loops.lower.reductions import element, mean_and_variance, reduction_nest
from dynascope.loops.lower.rules import Lowered, Lowering, NotLowered, rule, view_of
from dynascope.loops.nodes import LoopNode, Result, TensorView
from dynascope.sizes import product, same

aten = torch.ops.aten


@rule(aten._softmax.default)
def softmax(call: Lowering) -> Lowered:
    source, dimension = call.arguments[:2]
    nest, x = _rows(call, source, dimension)
    power = (x - nest.reduce("max", x)).apply("exp")
    return call.finish(nest, power / nest.reduce("sum", power))


@rule(aten._log_softmax.default)
def log_softmax(call: Lowering) -> Lowered:
    source, dimension = call.arguments[:2]
    nest, x = _rows(call, source, dimension)
    greatest = nest.reduce("max", x)
    shifted = x - greatest
    return call.finish(nest, shifted - nest.reduce("sum", shifted.apply("exp")).apply("log"))


@rule(aten._softmax_backward_data.default)
def softmax_backward(call: Lowering) -> Lowered | NotLowered:
    gradient, output, dimension, dtype = call.arguments[:4]
    if call.device.type == "cpu" and gradient.dtype != dtype:
        return NotLowered("the library refuses to give a gradient of another type than the one it gets")
    nest, g = _rows(call, gradient, dimension)
    y = element(call, nest, output).cast(g.dtype)
    product = g * y
    return call.finish(nest, product - y * nest.reduce("sum", product))


@rule(aten._log_softmax_backward_data.default)
def log_softmax_backward(call: Lowering) -> Lowered | NotLowered:
    gradient, output, dimension, dtype = call.arguments[:4]
    if call.device.type == "cpu" and gradient.dtype != dtype:
        return NotLowered("the library refuses to give a gradient of another type than the one it gets")
    nest, g = _rows(call, gradient, dimension)
    y = element(call, nest, output).cast(g.dtype)
    return call.finish(nest, g - y.apply("exp") * nest.reduce("sum", g))


def _rows(call: Lowering, source: TensorView, dimension: int) -> tuple[NestBuilder, Scalar]:
    nest = reduction_nest(call, source, [dimension])
    return nest, element(call, nest, source).cast(compute_dtype(call.results[0].dtype))


@rule(aten.native_layer_norm.default)
def layer_norm(call: Lowering) -> Lowered | NotLowered:
    source, shape, weight, bias, epsilon = call.arguments
    rank = len(source.sizes)
    nest = reduction_nest(call, source, list(range(rank - len(shape), rank)))
    x = element(call, nest, source).cast(compute_dtype(source.dtype))
    count = product(shape)
    average, spread = mean_and_variance(nest, x, count, count)
    scale = (spread + epsilon).apply("reciprocal_square_root")
    y = (x - average) * scale
    for parameter, combine in ((weight, "multiply"), (bias, "add")):
        if isinstance(parameter, TensorView):
            own = nest.indices[rank - len(shape) :]
            y = y.apply(combine, call.scalar(nest, parameter, own, x.dtype))
    return call.finish(nest, y, average, scale)


@rule(aten.native_group_norm.default)
def group_norm(call: Lowering) -> Lowered | NotLowered:
    source, weight, bias, batch, channels, spatial, groups, epsilon = call.arguments
    if not same(source.strides, row_major(source.sizes)) or is_empty(source):
        return NotLowered("group norm of a tensor that is not contiguous")
    share = channels // groups
    nest = call.nest((batch, groups, share, spatial), frozenset({2, 3}))
    flat = linear(nest.indices, row_major(nest.sizes), source.offset)
    x = nest.load_flat(source.buffer, source.dtype, flat).cast(compute_dtype(source.dtype))
    average, spread = mean_and_variance(nest, x, share * spatial, share * spatial)
    scale = (spread + epsilon).apply("reciprocal_square_root")
    y = (x - average) * scale
    channel = nest.indices[1] * share + nest.indices[2]
    for parameter, combine in ((weight, "multiply"), (bias, "add")):
        if isinstance(parameter, TensorView):
            y = y.apply(combine, call.scalar(nest, parameter, (channel,), x.dtype))
    return _grouped_results(call, nest, (y, average, scale))


def _grouped_results(call: Lowering, nest: NestBuilder, scalars: tuple[Scalar, ...]) -> Lowered:
    """The normalised tensor walked as (batch, groups, share, spatial), and the statistics by (batch, groups)."""
    output, *statistics = (call.result_buffer(meta, f"_{k}") for k, meta in enumerate(call.results))
    results = [Result(output, scalars[0].cast(output.dtype).number, row_major(nest.sizes))]
    for buffer, scalar in zip(statistics, scalars[1:], strict=True):
        results.append(Result(buffer, scalar.cast(buffer.dtype).number, (nest.sizes[1], 1, 0, 0)))
    node = LoopNode(output.name, nest.loops, nest.body, tuple(results), call.origin)
    return Lowered((node,), tuple(view_of(r.buffer) for r in results))
