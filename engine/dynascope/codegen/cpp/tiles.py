"""Reductions whose rows lie side by side in memory (sums of columns): many rows at once, so that memory is read in order.

    for (long tile = 0; tile < 1024; tile += 512)
      for (long c0_at = 0; c0_at < 4096; c0_at += 8)           eight steps of the reduction
        for (long r0 = tile; r0 < edge; r0 += 16) {            ... for each of the tile's rows
          F32 sum_1_part = load(sum_1_part_tile + r0 - tile, N);
          for (long c0 = c0_at; c0 < c0_end; c0++) sum_1_part += load(x + 1024 * c0 + r0, n);
          store(sum_1_part_tile + r0 - tile, sum_1_part, N);
        }

What a row has so far lies in arrays, a place for each row of the tile: the accumulators, and row values that a later pass
needs. A lane belongs to one row only, so the last lanes of a loop are masked, never gone over twice.
"""

from __future__ import annotations

from collections.abc import Callable

from dynascope.codegen.cpp import sizes
from dynascope.codegen.cpp.nest import Nest
from dynascope.codegen.cpp.reductions import Accumulator, accumulator
from dynascope.codegen.cpp.rows import RowEmitter, keep_plan
from dynascope.codegen.cpp.types import ELEMENT
from dynascope.loops.index import Symbol
from dynascope.loops.nodes import Buffer, Compute, Load, Operation, Reduce, Store
from dynascope.loops.operations import DIVISION, TABLE
from dynascope.schedule.groups import FusionGroup
from dynascope.sizes import known, nominal

TILE = 1024
STEPS = 8
BLOCK = 128
"""Steps whose sum goes into the total at once."""
FEWEST_COLUMNS = 8
CACHE = 1 << 19
"""Bytes of a tile that several passes go over."""


def is_tiled(nest: Nest) -> bool:
    """Whether lanes run over rows that are reduced, long enough for several vectors, and all that is reduced differs by row."""
    if nest.lane is None or not nest.lane_in_rows or not nest.columns or nominal(nest.lane.extent) <= 2 * nest.lanes:
        return False
    if nominal(nest.group.column_count) < FEWEST_COLUMNS:
        return False
    arrangement = nest.arrangement
    for number, operation in enumerate(nest.group.body):
        late = arrangement.levels[number] == "row" and arrangement.passes[number] > 0
        if late and not nest.varies(number):
            return False
        if isinstance(operation, Reduce) and operation.kind in ("argmax", "argmin"):
            return False
    return True


class TileEmitter(RowEmitter):
    """Passes over a tile of rows. `saved` names the arrays of what the tile's rows have so far."""

    def __init__(self, group: FusionGroup, name: str, buffers: dict[str, Buffer], nest: Nest) -> None:
        super().__init__(group, name, buffers, nest)
        self.saved: dict[int, str] = {}

    def _rows_at_once(self) -> int:
        nest = self.nest
        if nest.arrangement.pass_count < 2:
            return TILE
        loads = sum(isinstance(op, Load) for op in self.body)
        fitting = CACHE // (4 * loads * nominal(nest.group.column_count))
        return max(4 * nest.lanes, min(TILE, fitting // nest.lanes * nest.lanes))

    def _lane_place(self) -> str:
        return f" + {self.nest.lane} - tile"

    def _lane_loop(self, begin: str, end: str, clipped: bool) -> None:
        extent, size = sizes.text(self.nest.lane.extent), self._rows_at_once()
        if clipped:
            self._line(f"const long last = {end} < {extent} ? {end} : {extent};")
            end = "last"
        self._open(f"for (long tile = {begin}; tile < {end}; tile += {size})")
        self._line(f"const long edge = tile + {size} < {end} ? tile + {size} : {end};")
        self._tile()
        self._close()
        if clipped:
            self._close()

    def _tile(self) -> None:
        plan = keep_plan(self)
        count = self.nest.arrangement.pass_count
        for number in range(count):
            self._rows_between(number)
            self._tile_pass(number, plan)
        self._rows_between(count)

    # -- one pass --------------------------------------------------------------------------------------------------

    def _tile_pass(self, number: int, plan: dict[int, int]) -> None:
        passes = self.nest.arrangement.passes
        reduces = [n for n, op in enumerate(self.body) if isinstance(op, Reduce) and passes[n] == number + 1]
        roots = self._pass_roots(number)
        if not roots:
            return
        kept_here = [value for value, first in plan.items() if first == number]
        for value in kept_here:
            self._scratch(value)
        accumulators = [accumulator(n, self.body[n], self.body, self.nest, self._name_of(n)) for n in reduces]
        for item in accumulators:
            self._array(f"{item.part.name}_tile", item.value)
            if item.flush:
                self._array(f"{item.name}_total_tile", item.value)
        self._each_row(lambda: [self._line(line) for item in accumulators for line in self._first(item)])
        self._sweep(accumulators, roots, kept_here)
        for value in kept_here:
            self.kept[value] = self._scratch_name(value)
        for item in accumulators:
            self.saved[item.value] = f"{item.name}_total_tile" if item.flush else f"{item.part.name}_tile"

    def _first(self, item: Accumulator) -> list[str]:
        lines = [self._put(f"{item.part.name}_tile", _initial(item))]
        return [*lines, self._put(f"{item.name}_total_tile", "F32{}")] if item.flush else lines

    def _sweep(self, accumulators: list[Accumulator], roots: list[int], kept_here: list[int]) -> None:
        *outer, last = self.nest.columns
        for symbol in outer:
            self._open(f"for (long {symbol} = 0; {symbol} < {sizes.text(symbol.extent)}; {symbol}++)")
        totals = [item for item in accumulators if item.flush]
        first, end = "0", sizes.text(last.extent)
        if totals and not known("<=", last.extent, BLOCK):
            self._open(f"for (long block = 0; block < {end}; block += {BLOCK})")
            self._line(f"const long stop = block + {BLOCK} < {end} ? block + {BLOCK} : {end};")
            first, end = "block", "stop"
        self._open(f"for (long {last}_at = {first}; {last}_at < {end}; {last}_at += {STEPS})")
        self._line(f"const long {last}_end = {last}_at + {STEPS} < {end} ? {last}_at + {STEPS} : {end};")
        self._each_row(lambda: self._steps(last, accumulators, roots, kept_here))
        self._close()
        if totals:
            self._each_row(lambda: [self._line(line) for item in totals for line in self._flush(item)])
        if first == "block":
            self._close()
        for _ in outer:
            self._close()

    def _flush(self, item: Accumulator) -> list[str]:
        part, total = f"{item.part.name}_tile", f"{item.name}_total_tile"
        return [
            self._put(total, f"{self._get(total)} + {self._get(part)}"),
            self._put(part, _initial(item)),
        ]

    def _steps(self, last: Symbol, accumulators: list[Accumulator], roots: list[int], kept_here: list[int]) -> None:
        """Some steps of the reduction for one vector of rows, the accumulators in registers meanwhile."""
        for item in accumulators:
            self._line(f"{item.part.kind} {item.part.name} = {self._get(f'{item.part.name}_tile')};")
        wanted = self._needed_here(roots)
        self._values([n for n in wanted if self.nest.arrangement.levels[n] == "row"])
        outside = dict(self.names)
        self._open(f"for (long {last} = {last}_at; {last} < {last}_end; {last}++)")
        self._values(wanted)
        for value in kept_here:
            self._line(self._keep(value))
        for item in accumulators:
            self._lines_of(item.step(self.names[item.argument]))
        self._close()
        self.names = outside
        for item in accumulators:
            self._line(self._put(f"{item.part.name}_tile", item.part.name))

    # -- rows ------------------------------------------------------------------------------------------------------

    def _rows_between(self, number: int) -> None:
        """Row values that are ready before pass `number`: those stored now, and those that a later pass needs."""
        arrangement = self.nest.arrangement
        ready = [
            n for n, op in enumerate(self.body)
            if arrangement.levels[n] == "row" and arrangement.passes[n] == number and n not in self.saved
            and not isinstance(op, Reduce)
        ]  # fmt: skip
        stores = [n for n in ready if isinstance(self.body[n], Store)]
        later = [n for n in ready if self._needs_place(n, number)]
        if not stores and not later:
            return
        for value in later:
            self._array(f"{self._name_of(value)}_tile", value)

        def lines() -> None:
            self._values(self._needed_here([*stores, *later]))
            for value in later:
                self._line(self._put(f"{self._name_of(value)}_tile", self.names[value]))

        self._each_row(lines)
        for value in later:
            self.saved[value] = f"{self._name_of(value)}_tile"

    def _needs_place(self, number: int, before: int) -> bool:
        """Whether elements need a row value that cannot be had by reading memory again."""
        operation = self.body[number]
        if isinstance(operation, Store) or not self.nest.varies(number):
            return False
        levels = self.nest.arrangement.levels
        if not any(levels[n] == "element" and number in op.arguments for n, op in enumerate(self.body)):
            return False
        return before > 0 or (isinstance(operation, Compute) and TABLE[operation.name].cost >= DIVISION)

    def _needed_here(self, roots: list[int]) -> list[int]:
        """The values to write inside a loop over the rows: what has no place and no name yet."""
        found: set[int] = set()
        open_values = list(roots)
        while open_values:
            value = open_values.pop()
            if value in found or value in self.names:
                continue
            found.add(value)
            if value not in self.saved and value not in self.kept:
                open_values.extend(self.body[value].arguments)
        return sorted(found)

    def _right_side(self, number: int, operation: Operation) -> str:
        if number in self.saved:
            return self._get(self.saved[number])
        return super()._right_side(number, operation)

    # -- text ------------------------------------------------------------------------------------------------------

    def _each_row(self, write: Callable[[], object]) -> None:
        """A loop over the tile's rows, a vector at a time; names made inside end with it."""
        lane, lanes, outside = self.nest.lane, self.nest.lanes, dict(self.names)
        if self.nest.has_whole_and_part:
            self._open("")
            closing, calls = self._open_steps("tile", "edge")
            write()
            self._close(closing)
            self._lines_of(calls)
        else:
            self._open(f"for (long {lane} = tile; {lane} < edge; {lane} += {lanes})")
            self._count(overlaps=False)
            write()
        self._close()
        self.names = outside

    def _array(self, name: str, value: int) -> None:
        element = ELEMENT[self.body[value].dtype]
        self._line(f"{element} {name}[{self._rows_at_once()}] __attribute__((aligned(64)));")

    def _get(self, name: str) -> str:
        return f"load({name}{self._lane_place()}, N)"

    def _put(self, name: str, value: str) -> str:
        return f"store({name}{self._lane_place()}, {value}, N);"


def _initial(item: Accumulator) -> str:
    return f"{item.part.kind}{{}}" if item.part.initial == "{}" else item.part.initial
