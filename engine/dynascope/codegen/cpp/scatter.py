"""Writes to computed places. Two rows may meet at one place: they do so in order, so that the result is always the same.

    for (long r0 = 0; r0 < 1024; r0++)                                 every row, in order
      for (long r1 = begin * 16; r1 < last; r1 += 16) table[256 * index + r1] += ...

Threads share the loop whose steps never meet (the lanes, where the computed place does not depend on them); where there is
none, one thread does all.
"""

from __future__ import annotations

from dataclasses import replace

from dynascope.codegen.cpp import sizes
from dynascope.codegen.cpp.nest import Nest
from dynascope.codegen.cpp.rows import RowEmitter
from dynascope.loops.index import Extent
from dynascope.loops.nodes import Buffer, Store
from dynascope.schedule.groups import FusionGroup
from dynascope.sizes import is_constant, product


class ScatterEmitter(RowEmitter):
    """All rows in order, for a share of the lanes."""

    def __init__(self, group: FusionGroup, name: str, buffers: dict[str, Buffer], nest: Nest) -> None:
        self.apart = _lanes_never_meet(nest)
        super().__init__(group, name, buffers, replace(nest, blocked=self.apart))

    def _items(self) -> Extent:
        return self.nest.items if self.apart else 1

    def _rows(self) -> None:
        if not self.apart:
            self._line(f"end *= {sizes.factor(product(symbol.extent for symbol in self.nest.outer))};")
        super()._rows()


def _lanes_never_meet(nest: Nest) -> bool:
    if nest.lane is None:
        return False
    index = next(op.index for op in nest.group.body if isinstance(op, Store))
    return not is_constant(index.coefficient(nest.lane), 0) and not any(
        nest.lane in nest.depends[v] for v in index.loaded
    )
