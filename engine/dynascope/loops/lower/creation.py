"""Tensors made from nothing: full, zeros, arange, eye, triangles."""

from __future__ import annotations

from typing import Any

import torch

from dynascope.loops.lower.rules import Lowered, Lowering, NotLowered, rule
from dynascope.sizes import kind_of

aten = torch.ops.aten


def _filled(call: Lowering, value: Any) -> Lowered:
    nest = call.nest(call.results[0].shape)
    dtype = call.results[0].dtype
    return call.finish(nest, call.raw_scalar(nest, value, nest.indices, dtype).cast(dtype))


@rule(aten.full.default, aten.full_like.default, aten.new_full.default)
def full(call: Lowering) -> Lowered:
    position = 2 if call.operator is aten.new_full.default else 1
    return _filled(call, call.operand(position, "fill_value"))


@rule(aten.zeros.default, aten.zeros_like.default, aten.new_zeros.default)
def zeros(call: Lowering) -> Lowered:
    return _filled(call, 0)


@rule(aten.ones.default, aten.ones_like.default, aten.new_ones.default)
def ones(call: Lowering) -> Lowered:
    return _filled(call, 1)


@rule(aten.scalar_tensor.default)
def scalar_tensor(call: Lowering) -> Lowered:
    return _filled(call, call.arguments[0])


@rule(aten.fill.Scalar, aten.fill.Tensor)
def fill(call: Lowering) -> Lowered:
    return _filled(call, call.arguments[1])


@rule(aten.arange.default, aten.arange.start, aten.arange.start_step)
def arange(call: Lowering) -> Lowered | NotLowered:
    start, step = 0, 1
    if call.operator is not aten.arange.default:
        start, step = call.arguments[0], (call.arguments[2] if len(call.arguments) > 2 else 1)
    if kind_of(start) is not int or kind_of(step) is not int:
        return NotLowered("a range of floats, whose rounding is the library's")
    nest = call.nest(call.results[0].shape)
    return call.finish(nest, nest.index_value(nest.indices[0] * step + start).cast(call.results[0].dtype))


@rule(aten.tril.default, aten.triu.default)
def triangle(call: Lowering) -> Lowered:
    source, diagonal = call.arguments[0], call.operand(1, "diagonal", 0)
    nest = call.nest(call.results[0].shape)
    row, column = (nest.index_value(index) for index in nest.indices[-2:])
    lower = call.operator is aten.tril.default
    kept = (column - row).apply("less_equal" if lower else "greater_equal", diagonal)
    x = call.raw_scalar(nest, source, nest.indices, source.dtype)
    return call.finish(nest, kept.where(x, 0))


@rule(aten.eye.default, aten.eye.m)
def eye(call: Lowering) -> Lowered:
    nest = call.nest(call.results[0].shape)
    row, column = (nest.index_value(index) for index in nest.indices)
    return call.finish(nest, row.equal(column).cast(call.results[0].dtype))
