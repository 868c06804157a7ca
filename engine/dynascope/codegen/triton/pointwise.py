"""Groups without reductions: flat blocks, or two-dimensional tiles where buffers disagree on what is contiguous.

    y = x.t() + 1      reading x along r0, writing y along r1: a tile of 32 x 32 does both along the memory

Scatter groups are pointwise too; their stores go to computed places.
"""

from __future__ import annotations

from dynascope.codegen.target import DeviceModel
from dynascope.codegen.triton.draft import Draft, GroupFacts
from dynascope.codegen.triton.kernel import TritonKernel
from dynascope.codegen.triton.row_plan import power_of_two
from dynascope.codegen.triton.tile import Axis, Tile, flat_axes, needs_wide, place_axis
from dynascope.loops.index import Extent, Index, Symbol, constant
from dynascope.loops.nodes import CheckIndex, IndexValue, Load, Store
from dynascope.sizes import Size, estimated, hint_of, is_at_hand, is_constant, product, same

_TILE = 64
_MANY_LOADS = 12
"""More have fewer elements a thread, which holds what was loaded of each."""
_OF_MANY_LOADS = 2
_SMALLEST_SIDE = 8
"""A shorter side than this is not worth a tile."""
_BLOCKS_ALONG, _LITTLE_OUTSIDE, _MOST_OUTSIDE = (1024, 512), 1.07, 1.3
"""Of a loop that others would be divided by: blocks of which the largest is taken that goes little further past the end than others, and
how far any may. Of smaller ones there would be more programs than divisions cost."""
_OF_A_THREAD = 8


def emit_pointwise(facts: GroupFacts, device: DeviceModel) -> TritonKernel:
    axes, warps = _choose(facts, device)
    tile = Tile(axes, needs_wide(all_indices(facts), axes), flat=flat_axes(accesses(facts), axes))
    draft = Draft(facts, tile)
    _place_program(draft)
    if len(axes) == 1:
        draft.printer.first = f"program * {axes[0].block}"
    draft.printer.emit(range(len(facts.body)))
    return draft.finish(product(axis.blocks for axis in axes), warps)


def _choose(facts: GroupFacts, device: DeviceModel) -> tuple[tuple[Axis, ...], int]:
    rows = facts.group.rows
    side = _other_contiguous(facts)
    if side is not None:
        outer, inner = side, rows[-1]
        rest = tuple(symbol for symbol in rows if symbol not in (outer, inner))
        blocks = [min(_TILE, power_of_two(estimated(symbol.extent))) for symbol in (outer, inner)]
        tiled = (Axis("row", (outer,), blocks[0]), Axis("lane", (inner,), blocks[1]))
        return ((Axis("batch", rest, 1),) if rest else ()) + tiled, 8 if blocks[0] * blocks[1] >= 2048 else 4
    between = _between_elements(facts)
    if between is not None:
        rows = (*(symbol for symbol in rows if symbol != between), between)
    block, warps = _flat_block(facts, device, strides=between is None and _strides(facts))
    return _without_divisions(facts, rows, block) or ((Axis("lane", rows, block),), warps)


def _without_divisions(facts: GroupFacts, rows: tuple[Symbol, ...], most: int) -> tuple[tuple[Axis, ...], int] | None:
    """Axes and warps where flat positions would be divided by a number that varies, which takes a GPU some twenty instructions an element:
    the last such loop, with those inside, is an axis of its own, and a program has one place along the others. None where too much of its
    blocks would lie past its end. (Of tiles of several such places Triton does not see in which direction memory runs.)"""
    last = max((at for at, symbol in enumerate(rows) if isinstance(symbol.extent, Size)), default=0)
    outer, inner = rows[:last], rows[last:]
    length = product(symbol.extent for symbol in inner)
    if all(is_constant(symbol.extent, 1) for symbol in outer) or not is_at_hand(length):
        return None
    count = hint_of(length)
    visited = {block: -(-count // block) * block for block in _BLOCKS_ALONG if block <= most}
    block = next((block for block in visited if visited[block] <= _LITTLE_OUTSIDE * min(visited.values())), 0)
    if not block or visited[block] > _MOST_OUTSIDE * count:
        return None
    return (Axis("row", outer, 1), Axis("lane", inner, block)), _warps(facts, block)


def _flat_block(facts: GroupFacts, device: DeviceModel, strides: bool) -> tuple[int, int]:
    """1024 elements a program; fewer where there would not be two programs for every multiprocessor, as far as is known. A thread takes
    8 of them or 16, few where it loads much of each; where loads stride only 2, so that those of neighbouring threads lie side by side."""
    count = facts.group.row_count
    block = 1024
    while not isinstance(count, Size) and block > 128 and count < 2 * block * device.multiprocessors:
        block //= 2
    if len({(o.buffer, o.index) for o in facts.body if isinstance(o, Load)}) > _MANY_LOADS:
        warps = min(4, max(1, block // (32 * _OF_MANY_LOADS)))
        return 32 * warps * _OF_MANY_LOADS, warps
    if block >= 512 and strides:
        return 512, 8
    return block, _warps(facts, block)


def _warps(facts: GroupFacts, block: int) -> int:
    per_thread = 2 * _OF_A_THREAD if facts.is_heavy and block == 1024 else _OF_A_THREAD
    return max(1, block // (32 * per_thread))


def _strides(facts: GroupFacts) -> bool:
    """Whether some load steps over elements along the innermost loop."""
    inner = facts.group.rows[-1] if facts.group.rows else None
    steps = (o.index.coefficient(inner) for o in facts.body if isinstance(o, Load) and inner is not None)
    return any(not isinstance(step, Size) and abs(step) > 1 for step in steps)


def _between_elements(facts: GroupFacts) -> Symbol | None:
    """A short loop along which accesses find what lies between the elements that the innermost loop steps to (`pixel_unshuffle`, pairs
    taken apart). With it inside, whole lines are moved at once, and what other accesses move is as many streams as it is long. None
    where these move more bytes."""
    rows = [symbol for symbol in facts.group.rows if not is_constant(symbol.extent, 1)]
    if len(rows) < 2:
        return None
    moved: dict[Symbol | None, int] = {None: 0}
    short = [symbol for symbol in rows[:-1] if estimated(symbol.extent) < _SMALLEST_SIDE]
    for buffer, index in dict.fromkeys((o.buffer, o.index) for o in facts.body if isinstance(o, (Load, Store))):
        step = index.coefficient(rows[-1])
        if is_constant(step, 1):
            between = None
        elif (between := next((s for s in short if is_constant(index.coefficient(s), 1) and same(s.extent, step)), None)) is None:
            continue
        moved[between] = moved.get(between, 0) + facts.buffers[buffer].dtype.itemsize
    return max(moved, key=lambda symbol: (moved[symbol], symbol is not None))


def _other_contiguous(facts: GroupFacts) -> Symbol | None:
    """A loop other than the innermost along which some access runs through memory, where the innermost strides."""
    rows = [symbol for symbol in facts.group.rows if not is_constant(symbol.extent, 1)]
    if len(rows) < 2 or estimated(rows[-1].extent) < _SMALLEST_SIDE:
        return None
    inner = rows[-1]
    for index in _indices(facts):
        if not any(is_constant(index.coefficient(inner), step) for step in (-1, 0, 1)):
            for symbol in rows[:-1]:
                if is_constant(index.coefficient(symbol), 1) and estimated(symbol.extent) >= _SMALLEST_SIDE:
                    return symbol
    return None


def _place_program(draft: Draft) -> None:
    """Split the program's number over the axes, the innermost fastest."""
    tile, writer = draft.tile, draft.writer
    writer.write("program = tl.program_id(0)" + (".to(tl.int64)" if tile.wide else ""))
    inner: Extent = 1
    lines: list[str] = []
    for axis in reversed(tile.axes):
        number = "program" if is_constant(inner, 1) else f"program // {tile.factor(inner)}"
        inner = inner * axis.blocks
        if axis is not tile.axes[0]:
            number = f"{number} % {tile.factor(axis.blocks)}"
        block = f"({number})" if " " in number else number
        start = "0" if is_constant(axis.blocks, 1) else block if axis.block == 1 else f"{block} * {axis.block}"
        lines = place_axis(tile, axis, start) + lines
    writer.write_all(lines)


def _indices(facts: GroupFacts) -> list[Index]:
    return [operation.index for operation in facts.body if isinstance(operation, (Load, Store))]


def accesses(facts: GroupFacts) -> list[Index]:
    """Where what is read and written lies, each once."""
    places = ((o.buffer, o.index) for o in facts.body if isinstance(o, (Load, Store)))
    return [index for _, index in dict.fromkeys(places)]


def all_indices(facts: GroupFacts) -> list[Index]:
    """Every index whose text is computed in the width of positions, numbers that vary included."""
    values = [o.index for o in facts.body if isinstance(o, IndexValue)]
    extents = [constant(o.extent) for o in facts.body if isinstance(o, CheckIndex) and isinstance(o.extent, Size)]
    return [*_indices(facts), *values, *extents]
