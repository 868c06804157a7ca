"""The model that chooses how a group with reductions runs: blocks, warps, and how many programs share a row.

    softmax of 4096 bf16    ->  RowPlan("held", row_block=1, column_block=4096, warps=4)
    sum of 2**27            ->  RowPlan("split", row_block=1, column_block=1024, warps=4, steps=125, parts=1049)

held    the whole row in registers: one read of each element however many passes the body has
looped  a loop over the columns for each pass, each reading anew
split   several programs for each row, of which the last to finish combines: for few, long rows and one pass
gathered several programs for each row, which wait for one another at each reduction: for long rows and several passes
walked  one program holds several rows, one after another: where values are added up over these

Columns whose count varies are held in the next of a few sizes, or of the powers of two where there is much to do, and that they fit is
relied on; looping and splitting are right for any count.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from dynascope.codegen.target import DeviceModel
from dynascope.codegen.triton.draft import GroupFacts
from dynascope.codegen.triton.kernel import MOST_TICKETS
from dynascope.codegen.triton.reductions import INDEXED
from dynascope.dataclass import dataclass
from dynascope.loops.index import Extent, Index
from dynascope.loops.nodes import Load, Reduce, Scan, Store
from dynascope.schedule.few_rows import MOST_HELD_COLUMNS, runs_along_rows
from dynascope.schedule.passes import Arrangement
from dynascope.sizes import Size, blocks_of, estimated, hint_of, is_at_hand, is_constant

Mode = Literal["held", "looped", "split", "gathered", "walked"]

_HELD_BYTES = 65536
"""A row this long still fits the registers of one program."""

_LONG_HELD_BYTES = 131072
"""Up to so long a row is held where that saves reading it again. Where nothing is, a loop's small blocks leave room for more programs."""

_HELD_BLOCKS = (128, 1024, 4096, 16384)
"""The sizes for columns whose count varies: few, so that few counts need a kernel of their own."""
_MUCH_WORK = 1 << 20
"""Elements from which on a block that is half empty costs more than another kernel for rows that are twice as long: rows of 10 in blocks
of 128 took 8 times as long, of 5120 in 16384 1.7 times (H200)."""

_SHORT_BLOCK, _SHORT_BLOCK_WARPS = 2048, 4
"""Of a loop in which only numbers are made of the elements (a maximum is brought together at each step, sooner by few warps), or over rows
that begin anywhere (small pieces take registers)."""

_STAGES = 3
"""Blocks of a loop that are on their way at once: the next ones are read while one is computed with. Two hide less than they cost."""

_GATHERED_SHARE = 4
"""Programs that wait for one another are at most this part of those that a device surely runs at once: kernels of several streams
may wait side by side."""

_GATHERED_BLOCKS = (8192, 4096)
"""Elements of a part that is held. Longer parts leave a multiprocessor few programs to run while others wait."""

_GATHERED_PER_THREAD, _GATHERED_OF_SEVERAL = 64, 32
"""Elements of one operand: few warps have less to wait for, and leave room for more programs that wait. Of several operands a thread has
no registers for so many, and where some are not read in one piece more warps hide that."""

_SUMMED_PER_THREAD = 16
"""Elements of f32 of which several sums are made of several operands (a norm's gradient): of more a thread holds too much to have loads in
flight beside it (2048 rows of 16384 took 1.3 times as long, H200)."""

_WALKED_PER_THREAD = 16
"""Elements: beside them stand the sums."""

_LONG_STEP = 64
"""Columns that a tile of rows walks down in a step: few steps in which programs that share no rows bring a maximum together."""

_STREAMED_ROWS, _STREAMED_STEP, _FEWEST_STREAMED = 64, 8, 32
"""Rows side by side that a program walks down where their columns are read once: it needs no registers for all of them, and whole lines
of memory are on their way. Columns of a step, and so many at least (a maximum of 21 to 512 took 0.4 to 0.9 of what other steps take)."""
_STREAMING_PROGRAMS, _FINDING_PROGRAMS = 4, 32
"""For each multiprocessor, of one warp each and for one operand: fewer have too little on its way (sums of 1024 rows of 512 under a mask,
of 64 such: 107 us of so few, 54 of whole columns that are held). Those that find places wait for their comparisons, and take more."""

_HELD_TILES, _HELD_PER_THREAD = ((32, 2048), (128, 4096), (MOST_HELD_COLUMNS, 8192)), 32
"""Elements of a tile of rows side by side that is held, by how long they are, and of a thread: softmax of 64 and 128 channels took 1.5
times as long in tiles of 8192 by threads of 16 (H200)."""

_NARROWEST_ACROSS, _SPLIT_ACROSS, _WIDEST_ACROSS = 16, 32, 64
"""Rows side by side of which several programs take parts: whole sectors of memory at least, no more than leave them registers, and of
parts that one program brings together no more than it has registers for."""

_LINE_BYTES, _MANY_ROWS = 128, 256
"""A line of memory: of 16-bit elements twice as many rows side by side fill it. Of fewer rows than these there are too many parts to bring
together for that."""

_SENT_ALONE = 4
"""Bytes of an element that is sent to shared memory by itself, which takes three to five times as long as reading it when it is wanted.
Narrower ones of a single row are not read ahead unless they lie in one piece."""

_LONG_WALK = 16
"""Steps from which on 16-bit elements are read ahead though nothing is computed between their loads: few bytes are on their way else."""

_ALONE_BYTES, _MOST_PER_THREAD, _SHORT_ROW = 64, 32, 64
"""Of rows that a warp holds alone: bytes of each thread, and no more elements than it has registers for. Columns of rows of which many
make a program."""

_SCANNED_ROWS, _SCANNED_COLUMNS, _SCANNED_WARPS = 32, 128, 4
"""The tile of a scan down the columns: long steps, of which each waits for the one before, and few warps to pass on what they carry."""

_USUAL_ROW_BLOCKS = 256
"""Room for the parts of so many is there where rows vary, so that few counts need a kernel of their own."""

_TILE_ELEMENTS = 4096
_SMALL_TILE = 2048


@dataclass(frozen=True, slots=True)
class RowPlan:
    mode: Mode
    row_block: int
    column_block: int
    warps: int
    steps: Extent = 1
    """Blocks that one program goes through."""
    parts: int = 1
    most_row_blocks: int = 0
    """There is room for the parts of so many; 0 where nothing is left between programs."""


def choose_rows(
    facts: GroupFacts, arrangement: Arrangement, online: Mapping[int, int], sweeps: int, device: DeviceModel
) -> RowPlan:
    """`sweeps` is how many passes over the elements there are, `online` the sums that loops find along with another reduction."""
    if runs_along_rows(facts.body, facts.group.rows, facts.group.columns, facts.buffers):
        return _across(facts, sweeps, device, streams=sweeps <= 1 and not online)
    return _along(facts, sweeps, device, _bytes_read_again(facts, arrangement, online))


def choose_walk(facts: GroupFacts, programs: int) -> RowPlan:
    """Rows that `programs` programs go through; `steps` is how many blocks of rows each takes. Of columns that vary it is relied on that no
    more come than the block that holds those at hand has room for."""
    block = max(2, power_of_two(hint_of(facts.group.column_count)))
    _ = facts.group.column_count <= block
    together = max(1, min(_SMALL_TILE // block, 8))
    steps = blocks_of(facts.group.row_count, programs * together)
    return RowPlan("walked", together, block, _between(1, together * block // (32 * _WALKED_PER_THREAD), 16), steps)


def stages_of(facts: GroupFacts, plan: RowPlan, device: DeviceModel) -> int:
    """How many blocks are read ahead in a plan's loops: none where there are few, where shared memory has room for no two programs
    that do so, where elements would be sent there one by one, or where nothing is computed between the loads of a tile that is walked
    down (of parts: no second reduction)."""
    steps = plan.steps
    if plan.mode == "held" or (not isinstance(steps, Size) and steps < _STAGES):
        return 1
    loads = {(o.buffer, o.index) for o in facts.swept if isinstance(o, Load)}
    apart = [facts.buffers[name].dtype.itemsize for name, index in loads if not _is_in_one_piece(facts, index)]
    if apart and (plan.row_block > 1 or max(apart) >= _SENT_ALONE):
        return 1
    several = sum(isinstance(o, Reduce) for o in facts.body) > 1
    if len(loads) == 1 and plan.row_block > 1 and not (plan.mode == "split" and (several or _walks_far(facts, steps))):
        return 1
    element = sum(facts.buffers[name].dtype.itemsize for name, _ in loads)
    ahead = plan.row_block * plan.column_block * element * (_STAGES - 1)
    return _STAGES if 2 * ahead <= device.shared_memory else 1


def _is_in_one_piece(facts: GroupFacts, index: Index) -> bool:
    """Whether neighbours in the tile are neighbours in memory: not what is the same for many (a group norm's weight), nor what is looked
    up."""
    group = facts.group
    loops = group.rows if runs_along_rows(facts.body, group.rows, group.columns, facts.buffers) else group.columns
    looping = [symbol for symbol in loops if not is_constant(symbol.extent, 1)]
    return not looping or is_constant(index.coefficient(looping[-1]), 1)


def _are_in_one_piece(facts: GroupFacts) -> bool:
    return all(_is_in_one_piece(facts, o.index) for o in facts.swept if isinstance(o, Load))


def _operands_of_elements(facts: GroupFacts) -> int:
    """How many are read that are others in each row."""
    rows = {symbol for symbol in facts.group.rows if not is_constant(symbol.extent, 1)}
    loads = {(o.buffer, o.index) for o in facts.swept if isinstance(o, Load)}
    return sum(not rows or not rows.isdisjoint(index.symbols) for _, index in loads)


def _walks_far(facts: GroupFacts, steps: Extent) -> bool:
    return facts.widest_itemsize <= 2 and not isinstance(steps, Size) and steps >= _LONG_WALK


def _along(facts: GroupFacts, sweeps: int, device: DeviceModel, read_again: int) -> RowPlan:
    """Columns lie next to one another in memory."""
    rows, columns = facts.group.row_count, facts.group.column_count
    few = hint_of(rows) < device.multiprocessors
    if sweeps <= 1 and few and _is_long(columns, 8192) and (most := _most_blocks(rows, 1)):
        return _split_along(facts, device, most)
    block = _held_block(facts, _HELD_BYTES // facts.widest_itemsize)
    if not block and read_again:
        block = _long_held_block(facts, read_again)
    if block:
        return _held(facts, device, block)
    is_few, in_one_piece = estimated(rows) < 2 * device.multiprocessors, _are_in_one_piece(facts)
    waits = _is_worth_waiting(facts, read_again) if in_one_piece else estimated(rows) < device.multiprocessors
    if (waits or (is_few and in_one_piece)) and (gathered := _gathered(facts, sweeps, device)) is not None:
        return gathered
    if is_few or (_stores_along(facts) and not in_one_piece):
        return _looped(columns, 1, 8192, 16)
    if not _stores_along(facts) or not _is_in_whole_sectors(facts):
        return _looped(columns, 1, _SHORT_BLOCK, _SHORT_BLOCK_WARPS)
    return _looped(columns, 1, 8192 // facts.widest_itemsize, 8)


def _is_worth_waiting(facts: GroupFacts, read_again: int) -> bool:
    """Whether programs that wait for one another cost less than a loop's second reading, of `read_again` bytes of each element.

    Rows that begin anywhere are read in small pieces, of which programs that wait have too few on their way. What a loop reads again comes
    from the cache: two bytes of each element in less time than a meeting takes, unless stored results have taken their place there. Nor
    does it pay where some of what is read does not lie in one piece: many warps hide that, and those that wait are few.
    """
    return bool(read_again) and _is_in_whole_sectors(facts) and (_stores_along(facts) or read_again > 2)


def _stores_along(facts: GroupFacts) -> bool:
    return any(isinstance(operation, Store) for operation in facts.swept)


def _long_held_block(facts: GroupFacts, read_again: int) -> int:
    """A block for a row that is worth holding though it leaves few registers; else 0. `read_again` are bytes of each element.

    More elements than threads have registers for are held in pairs, which takes that they are read as such, that their places need no
    division, and that some of the block is empty: else a row is spilled, at many times the cost of reading it again.
    """
    columns = facts.group.column_count
    block = _held_block(facts, _LONG_HELD_BYTES // max(read_again, facts.widest_itemsize, 2))
    divides = sum(not is_constant(symbol.extent, 1) for symbol in facts.group.columns) > 1
    if block > _LONG_HELD_BYTES // 4 and (divides or not _is_in_whole_sectors(facts) or columns > block * 7 // 8):
        return 0
    return block


def _is_in_whole_sectors(facts: GroupFacts) -> bool:
    """Whether all rows begin at multiples of 16 elements and are as long, those at hand where sizes vary."""
    steps = [o.index.coefficient(symbol) for o in facts.swept for symbol in facts.group.rows]
    return all(is_at_hand(n) and hint_of(n) % 16 == 0 for n in (facts.group.column_count, *steps))


def _bytes_read_again(facts: GroupFacts, arrangement: Arrangement, online: Mapping[int, int]) -> int:
    """For each element: of what more than one pass of a loop would read."""
    readers: dict[int, set[int]] = {}
    elements = [n for n, level in enumerate(arrangement.levels) if level == "element"]
    for number, operation in reversed(list(enumerate(facts.body))):
        if isinstance(operation, Reduce):
            readers[number] = {arrangement.passes[online.get(number, number)] - 1}
        elif isinstance(operation, Store):
            readers[number] = {arrangement.passes[number]}
        for argument in operation.arguments:
            readers.setdefault(argument, set()).update(readers.get(number, ()))
    again = [facts.body[n] for n in elements if len(readers.get(n, ())) > 1]
    return sum({(load.buffer, load.index): load.dtype.itemsize for load in again if isinstance(load, Load)}.values())


def _is_long(columns: Extent, limit: int) -> bool:
    """Whether a row is worth several programs. Of columns that vary it is relied on that they are so many; of fewer, nothing."""
    return hint_of(columns) >= limit and columns >= limit


def _held_block(facts: GroupFacts, most: int) -> int:
    """A block with room for all columns; 0 where there are too many."""
    rows, columns = facts.group.row_count, facts.group.column_count
    if not isinstance(columns, Size) or (is_at_hand(columns) and estimated(rows) * estimated(columns) >= _MUCH_WORK):
        block = max(2, power_of_two(hint_of(columns)))
        return block if block <= most and columns <= block else 0
    fitting = [block for block in _HELD_BLOCKS if columns.hint <= block <= most]
    return fitting[0] if fitting and columns <= fitting[0] else 0


def _held(facts: GroupFacts, device: DeviceModel, block: int) -> RowPlan:
    """Rows that one warp has registers for are reduced without a barrier: as many in a program as it takes. Short ones come several to
    a warp, since each program costs something of its own, and so do those of 16 bits that a number alone is made of."""
    rows, itemsize = estimated(facts.group.row_count), facts.widest_itemsize
    alone = min(_ALONE_BYTES // itemsize, _MOST_PER_THREAD)
    holds_alone = block > _SHORT_ROW and (itemsize > 2 or _stores_along(facts))
    most = 32 * alone if holds_alone else _SMALL_TILE
    together = 1
    while together * block < most and rows >= 4 * together * device.multiprocessors:
        together *= 2
    # Sixteen-bit rows are read 16 bytes at a time by few threads; wider ones want more threads to have loads in flight.
    per_thread = alone if holds_alone and block <= most else 8 if itemsize > 2 else 32
    warps = _between(1, together * block // (32 * per_thread), 16)
    if rows < 2 * device.multiprocessors:
        warps = _between(warps, together * block // (32 * 8), 16)
    elif together == warps == 1 and _reads_mask(facts):
        together = warps = 2
    elif itemsize > 2 and together * block > 32 * warps * _SUMMED_PER_THREAD and _has_sums_of_several(facts):
        warps = 32
    return RowPlan("held", together, block, warps)


def _has_sums_of_several(facts: GroupFacts) -> bool:
    return _operands_of_elements(facts) > 1 and sum(isinstance(o, Reduce) for o in facts.body) > 1


def _reads_mask(facts: GroupFacts) -> bool:
    """Whether bytes are read beside elements of 16 bits: a warp that holds a row of these alone takes a fifth longer than two that hold
    two rows (softmax of 65536 rows of 1024 under a mask, H200)."""
    sizes = {facts.buffers[o.buffer].dtype.itemsize for o in facts.swept if isinstance(o, Load)}
    return facts.widest_itemsize == 2 and 1 in sizes


def _most_blocks(rows: Extent, row_block: int) -> int:
    """Blocks of rows at the most, each of which has a counter; 0 where these are too many. Of rows that vary it is relied on that they are
    no more than twice as many as at hand, or a usual number."""
    blocks = -(-hint_of(rows) // row_block)
    if not isinstance(rows, Size):
        return blocks if blocks <= MOST_TICKETS else 0
    most = max(2 * power_of_two(blocks), _USUAL_ROW_BLOCKS)
    return most if most <= MOST_TICKETS and rows <= most * row_block else 0


def _split_along(facts: GroupFacts, device: DeviceModel, most_blocks: int) -> RowPlan:
    """Blocks of eight elements a thread: what is computed of each takes registers, and other warps hide the time of its loads. Of several
    operands of more than 16 bits half as many programs have as much on its way."""
    rows, columns = hint_of(facts.group.row_count), facts.group.column_count
    is_large = estimated(columns) * rows >= 16384 * device.multiprocessors
    each = 4 if is_large and facts.widest_itemsize > 2 and _operands_of_elements(facts) > 1 else 8
    wanted = max(1, each * device.multiprocessors // rows)
    return _split(columns, 1, 1024, 4 if is_large else 2, wanted, most_blocks)


def _gathered(facts: GroupFacts, sweeps: int, device: DeviceModel) -> RowPlan | None:
    """Where several passes go through rows that no program holds: each element is read once, or near where it was read before. None
    for others."""
    columns, most = hint_of(facts.group.column_count), device.multiprocessors // _GATHERED_SHARE
    if not (most_row_blocks := _most_gathered(facts, sweeps, 1, most)):
        return None
    fitting = [block for block in _GATHERED_BLOCKS if block * most >= columns]
    filled = [block for block in fitting if columns % block == 0 or columns % block > block // 2 or columns > 8 * block]
    block = (filled or fitting or _GATHERED_BLOCKS)[0]
    per_thread = _GATHERED_PER_THREAD if _are_in_one_piece(facts) and _operands_of_elements(facts) == 1 else _GATHERED_OF_SEVERAL
    return _gathered_from(facts, 1, block, block // (32 * per_thread), most, most_row_blocks)


def _gathered_from(facts: GroupFacts, row_block: int, column_block: int, warps: int, most: int, most_row_blocks: int) -> RowPlan:
    """Of columns that vary parts are held where these at hand could be: then it is relied on that twice as many parts are enough."""
    columns = facts.group.column_count
    if not isinstance(columns, Size):
        return _divided("gathered", columns, row_block, column_block, warps, most, most_row_blocks)
    parts = min(most, power_of_two(-(-hint_of(columns) // column_block)))
    if hint_of(columns) <= parts * column_block and columns <= parts * column_block:
        return RowPlan("gathered", row_block, column_block, warps, 1, parts, most_row_blocks)
    return RowPlan("gathered", row_block, column_block, warps, blocks_of(columns, column_block * most), most, most_row_blocks)


def _most_gathered(facts: GroupFacts, sweeps: int, row_block: int, most: int) -> int:
    """Room for so many blocks of rows, of which programs wait for one another; 0 where they do not."""
    if sweeps <= 1 or most <= 1 or not is_at_hand(facts.group.column_count) or any(isinstance(o, Scan) for o in facts.body):
        return 0
    blocks = _most_blocks(facts.group.row_count, row_block)
    return blocks if blocks < MOST_TICKETS else 0


def _across(facts: GroupFacts, sweeps: int, device: DeviceModel, streams: bool) -> RowPlan:
    """Rows lie next to one another in memory: a tile of some rows, walked down the columns. `streams`: no element is used twice."""
    columns, rows = facts.group.column_count, estimated(facts.group.row_count)
    whole = _held_block(facts, MOST_HELD_COLUMNS)
    if whole >= _FEWEST_STREAMED and streams and _are_enough_to_stream(facts, rows, device):
        return _looped(columns, _STREAMED_ROWS, _STREAMED_STEP, _warps_across(_STREAMED_ROWS * _STREAMED_STEP))
    if whole:
        return _held_across(facts, device, whole)
    row_block = max(2, min(256 // facts.widest_itemsize, power_of_two(rows)))
    programs = -(-rows // row_block)
    if sweeps <= 1 and (split := _split_across(facts, device)) is not None:
        return split
    if programs < 2 * device.multiprocessors and (gathered := _gathered_across(facts, sweeps, device)) is not None:
        return gathered
    scans = any(isinstance(operation, Scan) for operation in facts.body)
    if scans and programs < device.multiprocessors // 2:
        return _narrow_scan(facts, device, row_block)
    if scans and row_block >= _SCANNED_ROWS:
        return _looped(columns, _SCANNED_ROWS, _SCANNED_COLUMNS, _SCANNED_WARPS)
    return _looped(columns, row_block, _LONG_STEP, _warps_across(row_block * _LONG_STEP))


def _are_enough_to_stream(facts: GroupFacts, rows: int, device: DeviceModel) -> bool:
    along = [symbol for symbol in facts.group.rows if not is_constant(symbol.extent, 1)][-1:]
    operands = {(o.buffer, o.index) for o in facts.swept if isinstance(o, Load) and not o.index.symbols.isdisjoint(along)}
    finds_places = any(isinstance(o, Reduce) and o.kind in INDEXED for o in facts.body)
    programs = rows // _STREAMED_ROWS * max(1, len(operands)) // device.multiprocessors
    return programs >= (_FINDING_PROGRAMS if finds_places else _STREAMING_PROGRAMS)


def _held_across(facts: GroupFacts, device: DeviceModel, whole: int) -> RowPlan:
    """Threads with many elements each, so that few of them share a row, and tiles of lines of memory."""
    rows, tile = estimated(facts.group.row_count), next(tile for most, tile in _HELD_TILES if whole <= most)
    row_block = max(2, min(tile // whole, power_of_two(rows), 256))
    while row_block > 8 and rows < 2 * row_block * device.multiprocessors:
        row_block //= 2
    per_thread = _HELD_PER_THREAD if whole <= _LONG_STEP or _operands_of_elements(facts) == 1 else _HELD_PER_THREAD // 2
    return RowPlan("held", row_block, whole, _between(1, row_block * whole // (32 * per_thread), 16))


def _split_across(facts: GroupFacts, device: DeviceModel) -> RowPlan | None:
    """Parts of few rows, which the last program to finish brings together. None where there are no four blocks of columns."""
    columns, most = facts.group.column_count, power_of_two(estimated(facts.group.row_count))
    widest = min(_WIDEST_ACROSS, max(_SPLIT_ACROSS, _LINE_BYTES // facts.widest_itemsize)) if most >= _MANY_ROWS else _SPLIT_ACROSS
    row_block = max(2, min(widest, max(_NARROWEST_ACROSS, most // 2), most))
    programs, column_block = -(-estimated(facts.group.row_count) // row_block), _SMALL_TILE // row_block
    parts = 4 * device.multiprocessors // programs
    if not isinstance(columns, Size):
        parts = min(parts, columns // (2 * column_block))
    if parts <= 1 or not _is_long(columns, 4 * column_block) or not (most_blocks := _most_blocks(facts.group.row_count, row_block)):
        return None
    return _split(columns, row_block, column_block, _warps_across(_SMALL_TILE), parts, most_blocks)


def _narrow_scan(facts: GroupFacts, device: DeviceModel, row_block: int) -> RowPlan:
    """Few rows, which no two programs can share: tiles of as few of them as give every multiprocessor a program, and longer steps. What
    they leave of a sector of memory their neighbours read at about the same time."""
    while row_block > 1 and -(-estimated(facts.group.row_count) // row_block) < device.multiprocessors:
        row_block //= 2
    return _looped(facts.group.column_count, row_block, _TILE_ELEMENTS // row_block, _warps_across(_TILE_ELEMENTS))


def _gathered_across(facts: GroupFacts, sweeps: int, device: DeviceModel) -> RowPlan | None:
    """As `_gathered`, for tiles of as many rows as leave every multiprocessor a program."""
    rows, most = estimated(facts.group.row_count), device.multiprocessors // _GATHERED_SHARE
    row_block = min(_WIDEST_ACROSS, power_of_two(rows))
    while row_block > _NARROWEST_ACROSS and -(-rows // row_block) * most < device.multiprocessors:
        row_block //= 2
    column_block = _TILE_ELEMENTS // row_block
    parts = min(most, hint_of(facts.group.column_count) // (2 * column_block))
    if parts <= 1 or not (most_row_blocks := _most_gathered(facts, sweeps, row_block, most)):
        return None
    return _gathered_from(facts, row_block, column_block, _warps_across(_TILE_ELEMENTS), parts, most_row_blocks)


def _warps_across(elements: int) -> int:
    return _between(1, elements // (32 * 16), 8)


def _looped(columns: Extent, row_block: int, column_block: int, warps: int) -> RowPlan:
    return RowPlan("looped", row_block, column_block, warps, blocks_of(columns, column_block))


def _split(columns: Extent, row_block: int, column_block: int, warps: int, wanted: int, most_row_blocks: int) -> RowPlan:
    """At most `wanted` parts, all of equally many blocks and none of them empty; of columns that vary, just so many parts."""
    if isinstance(columns, Size):
        return RowPlan("split", row_block, column_block, warps, blocks_of(columns, column_block * wanted), wanted, most_row_blocks)
    return _divided("split", columns, row_block, column_block, warps, wanted, most_row_blocks)


def _divided(mode: Mode, columns: int, row_block: int, column_block: int, warps: int, most: int, most_row_blocks: int) -> RowPlan:
    """Columns in at most so many parts, all of equally many blocks and none of them empty."""
    blocks = -(-columns // column_block)
    steps = -(-blocks // min(most, blocks))
    return RowPlan(mode, row_block, column_block, warps, steps, -(-blocks // steps), most_row_blocks)


def power_of_two(number: int) -> int:
    """The least power of two that is not less."""
    return 1 << max(number - 1, 0).bit_length()


def _between(low: int, wanted: int, high: int) -> int:
    return max(low, min(wanted, max(high, low)))
