"""Every reduction, and every scan, takes in one value for each element, also where the values do not differ.

sum over c0 of (load x[i0])   ->   sum over c0 of (where c0 >= 0, load x[i0], load x[i0])

A value that is the same in every lane is computed once, and would be added once for all the lanes of a step. Such values
come from expanded tensors (stride 0) and from constants.
"""

from __future__ import annotations

import torch

from dynascope.loops.body import BodyBuilder, instantiate
from dynascope.loops.index import ZERO, Symbol, renumbered, variable
from dynascope.loops.nodes import Body, Compute, Constant, IndexValue, Operation, Reduce, Scan
from dynascope.schedule.passes import index_of


def with_whole_reductions(body: Body, columns: tuple[Symbol, ...]) -> Body:
    """The body, in which each reduction's argument depends on all of `columns`; the same object where it does already."""
    depends = dependencies(body, frozenset(columns))
    if all(depends[op.arguments[0]] >= frozenset(columns) for op in body if isinstance(op, (Reduce, Scan))):
        return body
    builder, numbers = BodyBuilder(body[0].origin), []
    for operation in body:
        new = instantiate(operation, numbers.__getitem__, lambda index: renumbered(index, numbers.__getitem__))
        if isinstance(new, (Reduce, Scan)):
            missing = [symbol for symbol in columns if symbol not in depends[operation.arguments[0]]]
            new = instantiate(new, lambda value, m=missing, o=operation: _in_each(builder, value, m, o), lambda i: i)
        numbers.append(builder.append(new))
    return builder.body


def _in_each(builder: BodyBuilder, value: int, missing: list[Symbol], reduction: Operation) -> int:
    """The value, as one that depends on the missing columns too."""
    if not missing:
        return value
    place = ZERO
    for symbol in missing:
        place = place * symbol.extent + variable(symbol)
    at = builder.append(IndexValue(torch.int64, (), reduction.origin, place))
    zero = builder.append(Constant(torch.int64, (), reduction.origin, 0))
    inside = builder.append(Compute(torch.bool, (at, zero), reduction.origin, "greater_equal"))
    dtype = builder.operations[value].dtype
    return builder.append(Compute(dtype, (inside, value, value), reduction.origin, "where"))


def dependencies(body: Body, columns: frozenset[Symbol]) -> list[frozenset[Symbol]]:
    """The columns that each value differs along."""
    depends: list[frozenset[Symbol]] = []
    for operation in body:
        index = index_of(operation)
        own = frozenset() if index is None else index.symbols & columns
        own = own.union(*(depends[argument] for argument in operation.arguments))
        depends.append(frozenset() if isinstance(operation, Reduce) else own)
    return depends
