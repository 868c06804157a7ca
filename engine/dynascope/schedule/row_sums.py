"""Sums down the columns join the kernel that goes over the same elements by rows: the gradients of a norm's weight and bias beside
that of its input.

    dx = rows(dy, x)        r0: 8192 | c0: 768         dx = rows(dy, x); part[k, c0] = sum of dy * x over the rows of program k
    dw = sum(dy * x, 0)     r0: 768 | c0: 8192    ->   dw = sum(part, 0)                        r0: 768 | c0: 512

Both read the same tensors, or the first makes for the second what then needs no memory. The one kernel has PROGRAMS programs, which
go through several rows each; another adds up what these leave. On a GPU, where a program holds a row.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from dynascope.dataclass import dataclass
from dynascope.loops.body import BodyBuilder, Scalar, instantiate
from dynascope.loops.index import Index, Symbol, affine, substitute, variable
from dynascope.loops.inlining import without_unused
from dynascope.loops.nodes import (
    Body,
    Buffer,
    CheckIndex,
    Load,
    LoopProgram,
    Operation,
    Reduce,
    Scan,
    Store,
)
from dynascope.schedule import memory
from dynascope.schedule.emission import finished
from dynascope.schedule.groups import FusionGroup, Step
from dynascope.schedule.inline_plan import views_in
from dynascope.schedule.nests import indices_of, shaped
from dynascope.schedule.passes import arrange, index_of
from dynascope.sizes import estimated, same

PROGRAMS = 512
"""About four for each multiprocessor of the GPUs of today; what they leave is then read without masks."""
FEWEST_ROWS = 4 * PROGRAMS
MOST_COLUMNS = 8192
"""Beside what a program accumulates, more do not fit into registers."""
LOOKED_AT = 64
"""Steps before and after one that are tried as its partner."""


def with_row_sums(program: LoopProgram, steps: tuple[Step, ...]) -> tuple[LoopProgram, tuple[Step, ...]]:
    """The same program where such sums are parts of the steps over rows."""
    if not any(isinstance(step, FusionGroup) and _is_plain(step) for step in steps):
        return program, steps
    state = _State(program, steps)
    for number, step in enumerate(steps):
        if isinstance(step, FusionGroup) and _sums_down(step):
            state.join(number)
    return replace(program, buffers=state.buffers), tuple(step for steps in state.steps for step in steps)


class _State:
    """The steps at each place of the program, and who makes and reads which buffer."""

    def __init__(self, program: LoopProgram, steps: tuple[Step, ...]) -> None:
        self.steps: list[list[Step]] = [[step] for step in steps]
        self.buffers = dict(program.buffers)
        self.makers = {name: number for number, step in enumerate(steps) for name in memory.makes(step)}
        self.readers: dict[str, set[int]] = {}
        for number, step in enumerate(steps):
            for name in memory.reads(step):
                self.readers.setdefault(name, set()).add(number)
        self.kept = {view.buffer for view in views_in(program.outputs)}

    def join(self, number: int) -> None:
        """Makes the sums at a place part of the nearest step over rows that can take them."""
        (sums,) = self.steps[number]
        for distance in range(1, LOOKED_AT):
            for other in (number - distance, number + distance):
                if 0 <= other < len(self.steps) and self.steps[other]:
                    rows = self.steps[other][0]
                    if _goes_over_the_same(rows, sums) and self._join(number, other):
                        return

    def _join(self, number: int, other: int) -> bool:
        sums, rows = self.steps[number][0], self.steps[other][0]
        first, second = min(number, other), max(number, other)
        mapping = {sums.rows[0]: variable(rows.columns[0]), sums.columns[0]: variable(rows.rows[0])}
        theirs, ours = _Elements(sums, mapping), _Elements(rows, {})
        before, after = (theirs, ours) if number == first else (ours, theirs)
        if not all(self._is_there(load, before, after, first) for load in after.loads):
            return False
        if not self._shares(theirs, ours):
            return False
        width = rows.column_count
        parts = {
            at: Buffer(self._new_name(f"{sums.name}_part{at}"), torch.float32, rows.device, (PROGRAMS, width), (width, 1))
            for at, operation in enumerate(sums.body) if isinstance(operation, Reduce)
        }  # fmt: skip
        self.buffers |= {part.name: part for part in parts.values()}
        passed = {name for name in before.group.writes if name not in self.kept and self.readers.get(name, set()) <= {first, second}}
        merged, last = _merged(rows, before, after, parts, passed), _last_sums(sums, parts)
        rest = self.steps[second][1:]
        self.steps[first] = [merged, *([last] if number == first else []), *self.steps[first][1:]]
        self.steps[second] = [*([last] if number == second else []), *rest]
        self.makers |= dict.fromkeys(merged.writes, first)
        for name in merged.reads:
            self.readers.setdefault(name, set()).add(first)
        return True

    def _is_there(self, load: Load, before: _Elements, after: _Elements, first: int) -> bool:
        """Whether what the later one reads is made before both, or by the earlier one for the same element."""
        if load.buffer in before.group.writes:
            return before.stored(load.buffer, after.moved(load.index)) is not None
        return self.makers.get(load.buffer, -1) < first

    def _shares(self, sums: _Elements, rows: _Elements) -> bool:
        """Whether at least half of the bytes that the sums move for each element is moved by the rows' step as well."""
        sizes: dict[str, int] = {}
        at_hand = 0
        for operation in sums.group.body:
            if isinstance(operation, (Load, Store)) and len(operation.index.symbols) == 2 and operation.buffer not in sizes:
                sizes[operation.buffer] = self.buffers[operation.buffer].dtype.itemsize
                at_hand += sizes[operation.buffer] if rows.touches(operation.buffer, sums.moved(operation.index)) else 0
        return 2 * at_hand >= sum(sizes.values()) > 0

    def _new_name(self, wanted: str) -> str:
        while wanted in self.buffers:
            wanted += "_"
        return wanted


@dataclass(frozen=True, slots=True)
class _Elements:
    """A group's values for each element, in the loops that `mapping` leads to."""

    group: FusionGroup
    mapping: dict[Symbol, Index]

    @property
    def loads(self) -> list[Load]:
        return [operation for operation in self.group.body if isinstance(operation, Load)]

    def moved(self, index: Index) -> Index:
        return substitute(index, lambda atom: self.mapping.get(atom))

    def stored(self, buffer: str, place: Index) -> int | None:
        """The value that is stored there."""
        stores = (op for op in self.group.body if isinstance(op, Store) and op.buffer == buffer and op.mode == "set")
        return next((op.value for op in stores if len(op.index.symbols) == 2 and self.moved(op.index) == place), None)

    def touches(self, buffer: str, place: Index) -> bool:
        return any(
            isinstance(op, (Load, Store)) and op.buffer == buffer and self.moved(op.index) == place for op in self.group.body
        )


def _goes_over_the_same(rows: Step, sums: FusionGroup) -> bool:
    if not isinstance(rows, FusionGroup) or not (_is_plain(rows) or _has_sums(rows)) or rows.bases or sums.bases:
        return False
    sizes = (rows.row_count, rows.column_count), (sums.column_count, sums.row_count)
    return rows.device == sums.device and same(*sizes)


def _has_sums(group: FusionGroup) -> bool:
    return any(isinstance(operation, Store) and operation.mode == "sum" for operation in group.body)


def _is_plain(group: FusionGroup) -> bool:
    """One loop over rows, one over columns, on a GPU, and places that loops alone say."""
    return (
        _on_gpu(group)
        and len(group.rows) == len(group.columns) == 1
        and not any(isinstance(op, CheckIndex) or (isinstance(op, Store) and op.mode != "set") for op in group.body)
        and not any(index.loaded for index in indices_of(group.body))
    )


def _on_gpu(group: FusionGroup) -> bool:
    return group.device.type == "cuda"


def _sums_down(group: FusionGroup) -> bool:
    """Whether a group adds up many rows in one pass, and besides computes with the sums and stores elements."""
    if not _is_plain(group) or estimated(group.row_count) > MOST_COLUMNS or estimated(group.column_count) < FEWEST_ROWS:
        return False
    reduces = [op for op in group.body if isinstance(op, (Reduce, Scan))]
    return arrange(group.body, group.columns).pass_count == 1 and all(
        isinstance(op, Reduce) and op.kind == "sum" and op.dtype == torch.float32 for op in reduces
    )


def _merged(
    rows: FusionGroup, before: _Elements, after: _Elements, parts: dict[int, Buffer], passed: set[str]
) -> FusionGroup:
    """The values of both, loads before stores: a result may take over the memory of what is read. What the one only makes for the
    other is not stored."""
    builder = BodyBuilder(rows.origins[0])
    stores: list[Operation] = []
    (column,) = rows.columns
    known: dict[tuple[str, Index], int] = {}
    for elements in (before, after):
        numbers: dict[int, int] = {}
        is_sums = elements.group is not rows
        passes = arrange(elements.group.body, elements.group.columns).passes if is_sums else ()
        for at, operation in enumerate(elements.group.body):
            if is_sums and isinstance(operation, Reduce):
                value = numbers[operation.arguments[0]]
                stores.append(Store(torch.float32, (value,), operation.origin, parts[at].name, variable(column), "sum"))
            elif is_sums and passes[at] > 0:
                continue
            elif isinstance(operation, Store):
                new = instantiate(operation, numbers.__getitem__, elements.moved)
                known[operation.buffer, new.index] = new.value
                if operation.buffer not in passed or operation.mode == "sum":
                    stores.append(new)
            elif isinstance(operation, Load) and (operation.buffer, elements.moved(operation.index)) in known:
                value = known[operation.buffer, elements.moved(operation.index)]
                numbers[at] = Scalar(builder, value, builder.operations[value].dtype).cast(operation.dtype).number
            else:
                numbers[at] = builder.append(instantiate(operation, numbers.__getitem__, elements.moved))
    stores.sort(key=lambda store: store.mode == "sum")
    body = without_unused((*builder.body, *stores))
    return replace(finished(rows.device, body, rows.rows, rows.columns), name=rows.name)


def _last_sums(sums: FusionGroup, parts: dict[int, Buffer]) -> FusionGroup:
    """Over what the programs left; what was computed with the sums follows as it did."""
    (column,), part = sums.rows, Symbol("parts", PROGRAMS)
    builder = BodyBuilder(sums.origins[0])
    numbers: dict[int, int] = {}
    for at, operation in enumerate(sums.body):
        index = index_of(operation)
        if at in parts:
            load = Load(torch.float32, (), operation.origin, parts[at].name, affine({part: column.extent, column: 1}))
            numbers[at] = builder.append(Reduce(torch.float32, (builder.append(load),), operation.origin, "sum"))
        elif all(argument in numbers for argument in operation.arguments) and (
            index is None or sums.columns[0] not in index.symbols
        ):
            numbers[at] = builder.append(instantiate(operation, numbers.__getitem__, lambda index: index))
    body: Body = without_unused(builder.body)
    return replace(finished(sums.device, *shaped(body, (column,), (part,))), name=sums.name)
