"""A group's members written into one body, with stores for the values that others read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch

from dynascope.loops.body import BodyBuilder
from dynascope.loops.index import ZERO, Extent, Index, Substitution, Symbol
from dynascope.loops.inlining import BodyWriter, without_unused
from dynascope.loops.nodes import (
    Argument,
    CheckIndex,
    ExternCall,
    IndexValue,
    Load,
    LoopNode,
    Operation,
    Origin,
    Result,
    ScatterNode,
    Store,
)
from dynascope.loops.numbers import numbers_in
from dynascope.schedule.few_columns import written_out
from dynascope.schedule.groups import FusionGroup, ScatterGroup, Step
from dynascope.schedule.nests import rewritten, shaped
from dynascope.schedule.one_hot_sums import with_one_hot_sums
from dynascope.schedule.segments import segments
from dynascope.schedule.whole_reductions import with_whole_reductions
from dynascope.sizes import is_constant


def steps_of(unit: Any, stored: frozenset[str]) -> list[Step]:
    """The steps that a unit becomes: one, or one for each segment of a group that is cut."""
    if isinstance(unit.alone, ExternCall):
        return [unit.alone]
    if isinstance(unit.alone, ScatterNode):
        return [_scatter_group(unit.alone)]
    return _groups(unit, stored)


def _groups(unit: Any, stored: frozenset[str]) -> list[FusionGroup]:
    builder = BodyBuilder(unit.members[0][0].origin)
    values: dict[str, int] = {}
    bases: list[tuple[str, str]] = []

    def resolve(load: Load, flat: Index, guard: int | None) -> int | None:
        return values.get(load.buffer)

    writer = BodyWriter(builder, resolve)
    for node, symbols in unit.members:
        numbers = writer.write(node.body, symbols, [r.value for r in node.results])
        for result in node.results:
            values[result.buffer.name] = numbers[result.value]
            if result.base is not None:
                bases.append((result.buffer.name, result.base))
            if result.buffer.name in stored:
                _store(builder, node, result, symbols, numbers[result.value])
    rows = tuple(s for p, s in zip(unit.pieces, unit.symbols, strict=True) if not p.reduced)
    columns = tuple(s for p, s in zip(unit.pieces, unit.symbols, strict=True) if p.reduced)
    used = without_unused(with_one_hot_sums(builder.body, columns))
    if not any(isinstance(op, Store) for op in used):  # what read it turned out not to need it
        return []
    device = unit.members[0][0].device
    whole = with_whole_reductions(used, columns)
    if (few := written_out(whole, rows, columns, device)) is not None:
        whole, columns = few, ()
    plain = whole, rows
    body, rows, columns = shaped(*plain, columns)
    if columns:
        return [replace(finished(device, body, rows, columns), bases=tuple(bases))]
    if device.type != "cpu":
        return [replace(finished(device, body, rows, ()), plain=plain, bases=tuple(bases))]
    return [replace(finished(device, *shaped(*part, ())), plain=plain, bases=tuple(bases)) for part in segments(body, rows)]


def _store(builder: BodyBuilder, node: LoopNode, result: Any, symbols: dict[Symbol, Index], value: int) -> None:
    index = result_index(node, result, symbols)
    builder.append(Store(result.buffer.dtype, (value,), node.origin, result.buffer.name, index))


def result_index(node: LoopNode, result: Result, symbols: dict[Symbol, Index]) -> Index:
    """Where a member's result lies, over the group's symbols."""
    total = ZERO + result.offset
    for loop, stride in zip(node.loops, result.strides, strict=True):
        total = total + symbols[loop.symbol] * stride
    return total


def finished(device: torch.device, body: tuple[Operation, ...], rows: Any, columns: Any) -> FusionGroup:
    """The group with the facts that are read off its body. Named after its operators."""
    reads = tuple(dict.fromkeys(op.buffer for op in body if isinstance(op, Load)))
    writes = tuple(dict.fromkeys(op.buffer for op in body if isinstance(op, Store)))
    scalars = dict.fromkeys(op.name for op in body if isinstance(op, Argument))
    numbers = numbers_in(extents_of(body, (*rows, *columns)))
    origins = tuple(dict.fromkeys(op.origin for op in body))
    checks = any(isinstance(op, CheckIndex) for op in body)
    return FusionGroup(
        _name(body, origins), device, rows, columns, body, reads, writes, tuple(scalars | dict.fromkeys(numbers)),
        origins, frozenset(), checks, tuple(numbers.items()),
    )  # fmt: skip


def extents_of(body: tuple[Operation, ...], loops: tuple[Symbol, ...]) -> Iterator[Extent | None]:
    """Every extent and size that a group's text may mention."""
    yield from (loop.extent for loop in loops)
    for operation in body:
        if isinstance(operation, Argument):
            yield operation.size
        elif isinstance(operation, CheckIndex):
            yield operation.extent
        elif isinstance(operation, (Load, Store, IndexValue)):
            yield from operation.index.sizes


def _name(body: tuple[Operation, ...], origins: tuple[Origin, ...]) -> str:
    """What it computes, in the order of the program: `layer_norm_gelu_add`."""
    names = list(dict.fromkeys(_short(origin.operator) for origin in origins))
    names = [n for n in names if n not in ("to_copy", "full", "clone", "scalar_tensor")] or names
    return "_".join(names[:4])


def _short(operator: str) -> str:
    parts = operator.split(".")
    return parts[1].strip("_").removeprefix("native_") if len(parts) > 1 else parts[0]


def _scatter_group(node: ScatterNode) -> ScatterGroup:
    store = Store(
        node.result.dtype,
        (*sorted(node.index.loaded), node.value),
        node.origin,
        node.result.name,
        node.index,
        node.mode,
    )
    rows = tuple(loop.symbol for loop in node.loops if not is_constant(loop.size, 1))
    once = {loop.symbol: ZERO for loop in node.loops if is_constant(loop.size, 1)}
    body = rewritten((*node.body, store), Substitution(once.get))
    return ScatterGroup(finished(node.device, *shaped(body, rows, ())), node)
