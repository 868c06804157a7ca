"""Pointwise groups that read some memory across the lanes (`x.t() + y`): blocks of it are turned first, in the first cache.

    for (long item = begin; item < end; item++) {                 16 of r0 each
      const auto block = [&](const long r1, const long n, const long steps) {
        f32 x_0_block[256];   turn(x_0_block, x + 1024 * r1 + r0_first, 1024, n, steps);
        for (long r0 = r0_first; r0 < r0_first + steps; r0++)
          F32 x_0 = load(x_0_block + (r0 - r0_first) * 16, N);
          ...
      };
      for (long r1 = 0; r1 < 1024; r1 += 16) block(r1, 16, 16);

So memory is read and written in runs of 16 elements. Without it each element read is a line of the cache of its own.
"""

from __future__ import annotations

from dynascope.codegen.cpp import sizes
from dynascope.codegen.cpp.names import identifier
from dynascope.codegen.cpp.nest import Nest, contiguous
from dynascope.codegen.cpp.rows import RowEmitter
from dynascope.codegen.cpp.types import MEMORY
from dynascope.loops.index import Extent, Symbol
from dynascope.loops.nodes import Load
from dynascope.sizes import Size, blocks_of, is_multiple, known, nominal, product

STEPS = 16
SHORTEST = 8


def turned_loads(nest: Nest) -> tuple[Symbol | None, tuple[int, ...]]:
    """The loop along which some loads are contiguous that are not along the lanes, and those loads."""
    found: dict[Symbol, list[int]] = {}
    if nest.group.columns or nest.lane is None or nominal(nest.lane.extent) < SHORTEST:
        return None, ()
    for number, operation in enumerate(nest.group.body):
        if not isinstance(operation, Load) or operation.guard is not None or not nest.varies(number):
            continue
        index = operation.index
        if not all(isinstance(atom, Symbol) for atom, _ in index.terms) or known("<=", index.coefficient(nest.lane), 1):
            continue
        for symbol in nest.outer:
            if nominal(symbol.extent) >= SHORTEST and contiguous(index, symbol, nest.group, nest.depends):
                found.setdefault(symbol, []).append(number)
    if not found:
        return None, ()
    symbol = max(found, key=lambda s: len(found[s]))
    return symbol, tuple(found[symbol])


class TurnEmitter(RowEmitter):
    """Tiles of the lanes by another loop of the rows."""

    def _items(self) -> Extent:
        self.along, self.turned = turned_loads(self.nest)
        others = [symbol.extent for symbol in self.nest.outer if symbol != self.along]
        return product([blocks_of(self.along.extent, STEPS), *others])

    def _rows(self) -> None:
        self.along, self.turned = turned_loads(self.nest)
        lane, along = self.nest.lane, self.along
        tiles = sizes.factor(blocks_of(along.extent, STEPS))
        self._open("for (long item = begin; item < end; item++)")
        self._line(f"const long {along}_first = item % {tiles} * {STEPS};")
        self._line(f"const long {along}_steps = {_smaller(f'{sizes.text(along.extent)} - {along}_first', STEPS)};")
        others = tuple(symbol for symbol in self.nest.outer if symbol != along)
        self._lines_of(self._place(others, f"item / {tiles}", "const long"))
        arguments = f"const long {lane}, const long n, const long steps"
        self._open(f"const auto block = [&]({arguments}) __attribute__((always_inline))")
        for number in self.turned:
            self._turn(number)
        self._open(f"for (long {along} = {along}_first; {along} < {along}_first + steps; {along}++)")
        self._one_row()
        self._close()
        self._close("};")
        self._blocks()
        self._close()

    def _blocks(self) -> None:
        """Where extents vary, whole blocks are compiled knowing that they are whole."""
        lane, lanes, along = self.nest.lane, self.nest.lanes, self.along
        end = sizes.text(lane.extent)
        conditions = []
        if isinstance(lane.extent, Size) or isinstance(along.extent, Size):
            conditions += [] if self.nest.fills_lanes else [f"{end} - {lane} >= {lanes}"]
            conditions += [] if is_multiple(along.extent, STEPS) else [f"{along}_steps == {STEPS}"]
        self._open(f"for (long {lane} = 0; {lane} < {end}; {lane} += {lanes})")
        if conditions:
            self._line(f"if ({' && '.join(conditions)}) block({lane}, {lanes}, {STEPS}); else")
        self._line(f"block({lane}, {_smaller(f'{end} - {lane}', lanes)}, {along}_steps);")
        self._close()

    def _turn(self, number: int) -> None:
        load, along = self.body[number], self.along
        name, kind = self._name_of(number), MEMORY[load.dtype]
        stride = sizes.text(load.index.coefficient(self.nest.lane))
        self._line(f"{kind} {name}_block[{STEPS * self.nest.lanes}] __attribute__((aligned(64)));")
        self._open("")
        self._line(f"const long {along} = {along}_first;")
        place = f"{identifier(load.buffer)} + {self._index(load.index)}"
        self._line(f"turn({name}_block, {place}, {stride}, n, steps);")
        self._close()

    def _load(self, number: int, operation: Load) -> str:
        if number not in self.turned:
            return super()._load(number, operation)
        place = f"{self._name_of(number)}_block + ({self.along} - {self.along}_first) * {self.nest.lanes}"
        return self._from_memory(f"load({place}, N)", operation.dtype)


def _smaller(left: str, right: int | str) -> str:
    return f"{left} < {right} ? {left} : {right}"
