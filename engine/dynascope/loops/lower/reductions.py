"""Reductions over any axes: the input's shape is iterated, the reduced dimensions' loops are marked.

sum(x f32[4, 8], dim=1)  ->  loops(i0: 4, c1: 8 reduced): reduce sum (load x)
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch

from dynascope.loops.body import NestBuilder, Scalar
from dynascope.loops.dtypes import accumulator_dtype, compute_dtype
from dynascope.loops.index import Extent
from dynascope.loops.layouts import is_empty
from dynascope.loops.lower.rules import Lowered, Lowering, NotLowered, Refused, rule
from dynascope.loops.nodes import ScanKind, TensorView
from dynascope.sizes import is_constant, nominal, nominal_product, product

aten = torch.ops.aten
FLOAT_MAX = torch.finfo(torch.float32).max
FEWEST_SCANS, LONGEST_FEW = 128, 4096
"""One program goes through a row. Of fewer rows than a GPU has multiprocessors, longer ones take the library less time."""


def reduced_dimensions(source: TensorView, dimensions: Any) -> frozenset[int]:
    """The axes that a `dim` argument names; all of them for None and []."""
    rank = len(source.sizes)
    if dimensions is None or dimensions == [] or dimensions == ():
        return frozenset(range(rank))
    listed = dimensions if isinstance(dimensions, (list, tuple)) else [dimensions]
    return frozenset(d % rank if rank else 0 for d in listed) if rank else frozenset()


def reduction_nest(call: Lowering, source: TensorView, dimensions: Any) -> NestBuilder:
    """A nest over the source; a tensor of no dimensions is iterated as one of a single element."""
    if is_empty(source):
        raise Refused("a reduction of an empty tensor")
    if not source.sizes:
        return call.nest((1,), frozenset({0}))
    return call.nest(source.sizes, reduced_dimensions(source, dimensions))


def element(call: Lowering, nest: NestBuilder, source: TensorView) -> Scalar:
    return call.raw_scalar(nest, source, nest.indices[len(nest.indices) - len(source.sizes) :], source.dtype)


def _count(nest: NestBuilder) -> Extent:
    return product(loop.size for loop in nest.loops if loop.reduced)


@rule(aten.sum.default, aten.sum.dim_IntList)
def total(call: Lowering) -> Lowered:
    source = call.arguments[0]
    nest = reduction_nest(call, source, call.operand(1, "dim"))
    dtype = accumulator_dtype(call.results[0].dtype)
    value = element(call, nest, source)
    if call.results[0].dtype != source.dtype:
        value = value.cast(call.results[0].dtype)
    return call.finish(nest, nest.reduce("sum", value.cast(dtype)))


@rule(aten.mean.default, aten.mean.dim)
def mean(call: Lowering) -> Lowered:
    source = call.arguments[0]
    nest = reduction_nest(call, source, call.operand(1, "dim"))
    value = element(call, nest, source).cast(compute_dtype(call.results[0].dtype))
    return call.finish(nest, nest.reduce("sum", value) / _count(nest))


@rule(aten.prod.default, aten.prod.dim_int)
def total_product(call: Lowering) -> Lowered:
    source = call.arguments[0]
    nest = reduction_nest(call, source, call.operand(1, "dim"))
    value = element(call, nest, source).cast(accumulator_dtype(call.results[0].dtype))
    return call.finish(nest, nest.reduce("prod", value))


def _scanned_dimension(call: Lowering) -> int:
    """The one that a scan runs along. Refused where the library is faster, or there is nothing to scan."""
    source = call.arguments[0]
    if not source.sizes or is_empty(source):
        raise Refused("a scan of nothing")
    dimension = call.operand(1, "dim") % len(source.sizes)
    length = source.sizes[dimension]
    are_few = nominal_product(source.sizes) < FEWEST_SCANS * nominal(length) and nominal(length) > LONGEST_FEW
    if are_few and is_constant(source.strides[dimension], 1):
        raise Refused("few long rows, which the library cuts")
    return dimension


def _scan_rule(kind: ScanKind) -> Callable[[Lowering], Lowered]:
    def apply(call: Lowering) -> Lowered:
        source, layout = call.arguments[0], call.results[0]
        dimension = _scanned_dimension(call)
        nest = call.nest(source.sizes, frozenset({dimension}))
        if is_constant(source.sizes[dimension], 1):
            value = element(call, nest, source).cast(layout.dtype)
            return call.finish(nest, value + 0.0 if kind == "sum" and layout.dtype.is_floating_point else value)
        value = element(call, nest, source).cast(layout.dtype).cast(accumulator_dtype(layout.dtype))
        return call.finish(nest, nest.scan(kind, value))

    return apply


rule(aten.cumsum.default, on_gpus=True)(_scan_rule("sum"))
rule(aten.cumprod.default, on_gpus=True)(_scan_rule("prod"))


def _running_extremum_rule(kind: ScanKind) -> Callable[[Lowering], Lowered]:
    """The extremum so far and where it stands: of equal ones the last, and a NaN stays until the next one. So an element's place is the
    last place up to there whose own element is the extremum at that place."""

    def apply(call: Lowering) -> Lowered:
        source = call.arguments[0]
        dimension = _scanned_dimension(call)
        nest = call.nest(source.sizes, frozenset({dimension}))
        value = _comparable(element(call, nest, source))
        place = nest.index_value(nest.indices[dimension])
        if is_constant(source.sizes[dimension], 1):
            return call.finish(nest, value, place)
        extremum = nest.scan(kind, value)
        is_next = value.apply("equal", extremum)
        if value.dtype.is_floating_point:
            is_next = is_next.apply("or", value.apply("is_nan"))
        return call.finish(nest, extremum, nest.scan("max", is_next.where(place, place.like(0))))

    return apply


rule(aten.cummax.default, on_gpus=True)(_running_extremum_rule("max"))
rule(aten.cummin.default, on_gpus=True)(_running_extremum_rule("min"))


def _extremum_rule(kind: str) -> Callable[[Lowering], Lowered]:
    def apply(call: Lowering) -> Lowered:
        source = call.arguments[0]
        nest = reduction_nest(call, source, call.operand(1, "dim"))
        value = element(call, nest, source).cast(compute_dtype(source.dtype))
        return call.finish(nest, _extremum(nest, kind, value))

    return apply


def _extremum(nest: NestBuilder, kind: str, value: Scalar) -> Scalar:
    """max and min of bool are any and all."""
    if value.dtype == torch.bool:
        return nest.reduce("any" if kind == "max" else "all", value)
    return nest.reduce(kind, value)


for _kind, _operators in {
    "max": (aten.amax.default, aten.max.default),
    "min": (aten.amin.default, aten.min.default),
}.items():
    rule(*_operators)(_extremum_rule(_kind))


def _extremum_with_place_rule(kind: str) -> Callable[[Lowering], Lowered | NotLowered]:
    def apply(call: Lowering) -> Lowered | NotLowered:
        source = call.arguments[0]
        nest = reduction_nest(call, source, call.arguments[1])
        value = _comparable(element(call, nest, source))
        return call.finish(nest, nest.reduce(kind, value), nest.reduce(f"arg{kind}", value))

    return apply


def _comparable(value: Scalar) -> Scalar:
    """bool and narrow integers compare as i32."""
    if value.dtype.is_floating_point:
        return value.cast(compute_dtype(value.dtype))
    return value if value.dtype == torch.int64 else value.cast(torch.int32)


rule(aten.max.dim)(_extremum_with_place_rule("max"))
rule(aten.min.dim)(_extremum_with_place_rule("min"))


def _place_rule(kind: str) -> Callable[[Lowering], Lowered]:
    def apply(call: Lowering) -> Lowered:
        source = call.arguments[0]
        nest = reduction_nest(call, source, call.operand(1, "dim"))
        return call.finish(nest, nest.reduce(kind, _comparable(element(call, nest, source))))

    return apply


rule(aten.argmax.default)(_place_rule("argmax"))
rule(aten.argmin.default)(_place_rule("argmin"))


def _truth_rule(kind: str) -> Callable[[Lowering], Lowered | NotLowered]:
    def apply(call: Lowering) -> Lowered | NotLowered:
        source = call.arguments[0]
        if call.operand(1, "dim") in ([], ()):
            return NotLowered("no dimensions, which reduce nothing")
        nest = reduction_nest(call, source, call.operand(1, "dim"))
        return call.finish(nest, nest.reduce(kind, element(call, nest, source).cast(torch.bool)))

    return apply


for _kind in ("any", "all"):
    rule(getattr(aten, _kind))(_truth_rule(_kind))


@rule(aten.var.correction, aten.std.correction, aten.var_mean.correction)
def variance(call: Lowering) -> Lowered | NotLowered:
    """Two passes: the mean, then the squared distances from it. Far from zero (1e5 in float32) what the rounding of the mean adds to
    them is more than the rounding of all the rest: a processor takes it off, which costs a third of the time. A GPU's rows lose their
    registers to a third sum, and eager's own is less exact there. Norms, which read the mean too, subtract it, rounding and all."""
    source = call.arguments[0]
    nest = reduction_nest(call, source, call.operand(1, "dim"))
    correction = call.keywords.get("correction")
    divisor = _count(nest) - (1 if correction is None else correction)
    if not 0 < divisor <= FLOAT_MAX:  # nor where the correction is no number
        return NotLowered("a variance with no degrees of freedom, or more than floats count")
    x = element(call, nest, source).cast(compute_dtype(source.dtype))
    average, distance, squares = _moments(nest, x, _count(nest))
    reads_mean = any(user.target is operator.getitem and user.args[1] == 1 for user in call.node.users)
    if call.device.type == "cpu" and not reads_mean:
        beside = nest.reduce("sum", distance)
        squares = squares - beside * beside / _count(nest)
        squares = squares.apply("maximum", squares.like(0.0))  # of equal elements it may come out a rounding below
    spread = squares / divisor
    name = call.operator.overloadpacket.__name__
    if name == "var_mean":
        return call.finish(nest, spread, average)
    return call.finish(nest, spread.apply("square_root") if name == "std" else spread)


def mean_and_variance(nest: NestBuilder, x: Scalar, count: Extent, divisor: Any) -> tuple[Scalar, Scalar]:
    """Row-level mean and sum of squared distances over `divisor`."""
    average, _, squares = _moments(nest, x, count)
    return average, squares / divisor


def _moments(nest: NestBuilder, x: Scalar, count: Extent) -> tuple[Scalar, Scalar, Scalar]:
    """The row's mean, each distance from it, and the sum of their squares."""
    average = nest.reduce("sum", x) / count
    distance = x - average
    return average, distance, nest.reduce("sum", distance * distance)


@rule(aten.logsumexp.default)
def log_sum_exp(call: Lowering) -> Lowered | NotLowered:
    source = call.arguments[0]
    if call.operand(1, "dim") in ([], ()):
        return NotLowered("no dimensions, which eager refuses when it runs")
    nest = reduction_nest(call, source, call.arguments[1])
    x = element(call, nest, source).cast(compute_dtype(call.results[0].dtype))
    greatest = nest.reduce("max", x)
    shift = greatest.apply("absolute").equal(float("inf")).where(greatest.like(0.0), greatest)
    return call.finish(nest, nest.reduce("sum", (x - shift).apply("exp")).apply("log") + shift)
