"""The model that chooses how a group with reductions runs: blocks, warps, and how many programs share a row.

    softmax of 4096 bf16    ->  RowPlan("held", row_block=1, column_block=4096, warps=4)
    sum of 2**27            ->  RowPlan("split", row_block=1, column_block=4096, warps=8, steps=32, parts=1024)

held    the whole row in registers: one read of each element however many passes the body has
looped  a loop over the columns for each pass, each reading anew
split   several programs for each row, of which the last to finish combines: for few, long rows and one pass
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dynascope.codegen.triton.device import DeviceModel
from dynascope.codegen.triton.draft import GroupFacts
from dynascope.codegen.triton.kernel import MOST_TICKETS
from dynascope.loops.index import Symbol
from dynascope.loops.nodes import Load
from dynascope.schedule.passes import Arrangement

Mode = Literal["held", "looped", "split"]

_HELD_BYTES = 65536
"""A row this long still fits the registers of one program."""

_HELD_ACROSS = 1024
"""So many columns still fit beside enough rows to read whole sectors of memory."""

_TILE_ELEMENTS = 4096
_SMALL_TILE = 2048


@dataclass(frozen=True, slots=True)
class RowPlan:
    mode: Mode
    row_block: int
    column_block: int
    warps: int
    steps: int = 1
    """Blocks that one program goes through."""
    parts: int = 1


def choose_rows(facts: GroupFacts, arrangement: Arrangement, device: DeviceModel) -> RowPlan:
    if _runs_along_rows(facts):
        return _across(facts, arrangement, device)
    return _along(facts, arrangement, device)


def _along(facts: GroupFacts, arrangement: Arrangement, device: DeviceModel) -> RowPlan:
    """Columns lie next to one another in memory."""
    rows, columns = facts.group.row_count, facts.group.column_count
    splits = arrangement.pass_count <= 1 and rows <= MOST_TICKETS and columns >= 8192 and rows < device.multiprocessors
    if splits:
        return _split_along(facts, device)
    block = max(2, power_of_two(columns))
    if block * facts.widest_itemsize <= _HELD_BYTES:
        return _held(facts, device, block)
    if rows < 2 * device.multiprocessors:
        return _looped(columns, 1, 8192, 16)
    return _looped(columns, 1, 8192 // facts.widest_itemsize, 8)


def _held(facts: GroupFacts, device: DeviceModel, block: int) -> RowPlan:
    rows = facts.group.row_count
    together = 1
    while together * block < _SMALL_TILE and rows >= 4 * together * device.multiprocessors:
        together *= 2
    # Sixteen-bit rows are read 16 bytes at a time by few threads; wider ones want more threads to have loads in flight.
    per_thread = 32 if facts.widest_itemsize <= 2 else 8
    warps = _between(1, together * block // (32 * per_thread), 16)
    if rows < 2 * device.multiprocessors:
        warps = _between(warps, together * block // (32 * 8), 16)
    return RowPlan("held", together, block, warps)


def _split_along(facts: GroupFacts, device: DeviceModel) -> RowPlan:
    rows, columns = facts.group.row_count, facts.group.column_count
    block = 4096 if columns * rows >= 4096 * 4 * device.multiprocessors else 1024
    wanted = max(1, 8 * device.multiprocessors // rows)
    return _split(columns, 1, block, block // 512, wanted)


def _across(facts: GroupFacts, arrangement: Arrangement, device: DeviceModel) -> RowPlan:
    """Rows lie next to one another in memory: a tile of some rows, walked down the columns."""
    rows, columns = facts.group.row_count, facts.group.column_count
    whole = max(2, power_of_two(columns))
    if whole <= _HELD_ACROSS:
        row_block = max(2, min(_TILE_ELEMENTS * 2 // whole, power_of_two(rows), 256))
        while row_block > 8 and rows < 2 * row_block * device.multiprocessors:
            row_block //= 2
        return RowPlan("held", row_block, whole, _between(1, row_block * whole // (32 * 16), 16))
    column_block = 64
    row_block = max(2, min(256 // facts.widest_itemsize, power_of_two(rows)))
    warps = _between(1, row_block * column_block // (32 * 16), 8)
    programs = -(-rows // row_block)
    parts = min(4 * device.multiprocessors // programs, columns // (2 * column_block))
    if parts > 1 and arrangement.pass_count <= 1 and programs <= MOST_TICKETS:
        return _split(columns, row_block, column_block, warps, parts)
    return _looped(columns, row_block, column_block, warps)


def _runs_along_rows(facts: GroupFacts) -> bool:
    """Whether most of what is read for each element is contiguous along a row loop and strided along the columns."""
    columns, votes = set(facts.group.columns), 0
    for operation in facts.body:
        if isinstance(operation, Load) and not columns.isdisjoint(operation.index.symbols()):
            size = facts.buffers[operation.buffer].bytes
            if _steps_by_one(operation, facts.group.columns):
                votes -= size
            elif _steps_by_one(operation, facts.group.rows):
                votes += size
    return votes > 0


def _steps_by_one(load: Load, symbols: tuple[Symbol, ...]) -> bool:
    return any(abs(load.index.coefficient(symbol)) == 1 for symbol in symbols)


def _looped(columns: int, row_block: int, column_block: int, warps: int) -> RowPlan:
    return RowPlan("looped", row_block, column_block, warps, -(-columns // column_block))


def _split(columns: int, row_block: int, column_block: int, warps: int, wanted: int) -> RowPlan:
    """At most `wanted` parts, all of equally many blocks and none of them empty."""
    blocks = -(-columns // column_block)
    steps = -(-blocks // min(wanted, blocks))
    return RowPlan("split", row_block, column_block, warps, steps, -(-blocks // steps))


def power_of_two(number: int) -> int:
    """The least power of two that is not less."""
    return 1 << max(number - 1, 0).bit_length()


def _between(low: int, wanted: int, high: int) -> int:
    return max(low, min(wanted, max(high, low)))
