"""Reductions of few rows that lie side by side in memory, and what is computed of each element with them, as two steps: batch norm
over images whose channels are last.

    r0: 32 | c0: 401408                                r0: 32 | c0: 401408
        %2 = reduce sum %0                                 store sums[r0] = reduce sum %0
        store y[32*c0 + r0] = subtract %0, %2    ->    r0: 12845056
                                                           store y[r0] = subtract %0, load sums[r0 % 32]

As one step, programs that share a row wait for one another at each reduction, and only so many of them may that few rows leave most of
the machine idle; what each reads the second time has left the cache by then. Two steps read as much and fill the machine, each
in the order of memory. On a GPU. Rows of whose elements each lies beside the next are shared by programs that wait, and read once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from dynascope.loops.body import BodyBuilder, instantiate
from dynascope.loops.index import Index, Symbol, linear, renumbered, variable
from dynascope.loops.inlining import checks, needed
from dynascope.loops.nodes import Body, Buffer, Load, LoopProgram, Operation, Origin, Reduce, Scan, Store
from dynascope.schedule.emission import finished
from dynascope.schedule.groups import Border, Fused, FusionGroup, NotFused, Step
from dynascope.schedule.nests import indices_of, shaped
from dynascope.schedule.passes import arrange
from dynascope.schedule.reasons import FewRows
from dynascope.sizes import estimated, is_constant, nominal

MOST_ROWS = 4096
MOST_HELD_COLUMNS = 1024
"""So many a program holds beside enough rows to read whole sectors of memory: they are read once."""
MOST_ROW_VALUES = 8


def with_few_rows_apart(
    program: LoopProgram, steps: tuple[Step, ...], borders: Sequence[Border]
) -> tuple[LoopProgram, tuple[Step, ...], tuple[Border, ...]]:
    """The same program where each such step is two."""
    buffers, found, apart = dict(program.buffers), list[Step](), list[tuple[FusionGroup, FusionGroup]]()
    for step in steps:
        two = _divided(step, buffers) if isinstance(step, FusionGroup) and _has_few_rows(step, buffers) else None
        found += two or (step,)
        apart += [two] if two else []
    if not apart:
        return program, steps, tuple(borders)
    parted = _parted(apart)
    return replace(program, buffers=buffers), tuple(found), tuple(_border(border, parted) for border in borders)


def runs_along_rows(
    body: Body, rows: Sequence[Symbol], columns: Sequence[Symbol], buffers: Mapping[str, Buffer]
) -> bool:
    """Whether most of what is read or written for each element is contiguous along a row loop and strided along the columns."""
    votes = 0
    for operation in body:
        if isinstance(operation, Load) and not set(columns).isdisjoint(operation.index.symbols):
            size = nominal(buffers[operation.buffer].bytes)
            if _steps_by_one(operation, columns):
                votes -= size
            elif _steps_by_one(operation, rows):
                votes += size
    return votes > 0


def _steps_by_one(load: Load, symbols: Sequence[Symbol]) -> bool:
    steps = [load.index.coefficient(symbol) for symbol in symbols]
    return any(is_constant(step, 1) or is_constant(step, -1) for step in steps)


def _has_few_rows(group: FusionGroup, buffers: Mapping[str, Buffer]) -> bool:
    if group.device.type != "cuda" or not group.columns or not group.rows or group.bases:
        return False
    if estimated(group.row_count) > MOST_ROWS or estimated(group.column_count) <= MOST_HELD_COLUMNS:
        return False
    is_plain = not checks(group.body) and not any(
        isinstance(op, Scan) or getattr(op, "mode", "set") != "set" for op in group.body
    )
    has_places = any(index.loaded for index in indices_of(group.body))
    return is_plain and not has_places and runs_along_rows(group.body, group.rows, group.columns, buffers)


def _divided(group: FusionGroup, buffers: dict[str, Buffer]) -> tuple[FusionGroup, FusionGroup] | None:
    """The reductions, with all that is no element's or comes before them, and the rest; None where there is no rest."""
    body, arrangement = group.body, arrange(group.body, group.columns)
    stores = [n for n, op in enumerate(body) if isinstance(op, Store)]
    after = [
        n for n in stores if arrangement.levels[n] == "element" and arrangement.passes[n] == arrangement.pass_count - 1
    ]
    if not after or arrangement.pass_count < 2:
        return None
    between = _row_values(body, arrangement.levels, after)
    if len(between) > MOST_ROW_VALUES:
        return None
    kept = {body[n].arguments[-1]: body[n] for n in stores if n not in after and arrangement.levels[n] == "row"}
    places = {value: kept[value] if value in kept else _row_store(group, value, buffers) for value in between}
    own = [places[value] for value in between if value not in kept]
    first = _body(body, [n for n in stores if n not in after], {}, own)
    second = _body(body, after, places, [])
    loops = *group.rows, *group.columns
    elements = finished(group.device, *shaped(second, loops, ()))
    return finished(group.device, *shaped(first, group.rows, group.columns)), replace(elements, plain=(second, loops))


def _row_values(body: Body, levels: Sequence[str], stores: Sequence[int]) -> list[int]:
    """Row values that follow from a reduction, and that element values on the way to the stores read."""
    found, seen, open_values = set(), set(), list(stores)
    while open_values:
        value = open_values.pop()
        if value in seen:
            continue
        seen.add(value)
        if levels[value] == "row" and any(isinstance(body[n], Reduce) for n in needed(body, [value])):
            found.add(value)
        else:
            open_values.extend(body[value].arguments)
    return sorted(found)


def _row_store(group: FusionGroup, value: int, buffers: dict[str, Buffer]) -> Store:
    """Into a new buffer, one after the other in the order of the rows."""
    name = f"{group.name}_row{value}"
    while name in buffers:
        name += "_"
    sizes = tuple(symbol.extent for symbol in group.rows)
    strides, step = [], 1
    for size in reversed(sizes):
        strides.append(step)
        step = step * size
    strides.reverse()
    operation = group.body[value]
    buffers[name] = Buffer(name, operation.dtype, group.device, sizes, tuple(strides))
    place = linear([variable(symbol) for symbol in group.rows], strides)
    return Store(operation.dtype, (value,), operation.origin, name, place)


def _body(body: Body, wanted: Sequence[int], given: Mapping[int, Operation], added: Sequence[Store]) -> Body:
    """What the wanted stores, and those `added`, need; values that are `given` are loaded from where a store has put them, which is the
    work of those that read them."""
    builder = BodyBuilder(body[0].origin)
    numbers: dict[int, int] = {}

    def moved(index: Index) -> Index:
        return renumbered(index, numbers.__getitem__)

    ends = [*wanted, *(store.value for store in added)]
    for value in _leading_to(body, ends, given):
        operation = body[value]
        if value in given:
            store = given[value]
            assert isinstance(store, Store)
            numbers[value] = builder.append(
                Load(operation.dtype, (), body[wanted[0]].origin, store.buffer, store.index)
            )
        else:
            numbers[value] = builder.append(instantiate(operation, numbers.__getitem__, moved))
        for store in added:
            if store.value == value:
                builder.append(instantiate(store, numbers.__getitem__, moved))
    return builder.body


def _leading_to(body: Body, ends: Sequence[int], given: Mapping[int, Operation]) -> list[int]:
    found, open_values = set(), list(ends)
    while open_values:
        value = open_values.pop()
        if value not in found:
            found.add(value)
            open_values.extend(() if value in given else body[value].arguments)
    return sorted(found)


def _parted(apart: Sequence[tuple[FusionGroup, FusionGroup]]) -> dict[str, list[dict[str, Origin]]]:
    """By the ATen node of a row's value, in each pair that has it, the nodes that only the second step computes."""
    found: dict[str, list[dict[str, Origin]]] = {}
    for first, second in apart:
        levels, own = arrange(first.body, first.columns).levels, _nodes(first.body)
        others = {node: origin for node, origin in _nodes(second.body).items() if node not in own}
        for node in _nodes(op for op, level in zip(first.body, levels, strict=True) if level == "row"):
            found.setdefault(node, []).append(others)
    return found


def _border(border: Border, parted: Mapping[str, Sequence[Mapping[str, Origin]]]) -> Border:
    """What was said to share a kernel, and does so no more: what follows from a reduction, and what is computed of elements with that."""
    if isinstance(border, Fused):
        for others in parted.get(border.producer, ()):
            if (origin := others.get(border.consumer)) is not None:
                return NotFused(border.producer, border.consumer, FewRows(border.producer, border.consumer), origin)
    return border


def _nodes(operations: Iterable[Operation]) -> dict[str, Origin]:
    """The ATen nodes that are computed by these. What is only read may be read for another."""
    return {operation.origin.node: operation.origin for operation in operations if not isinstance(operation, Load)}
