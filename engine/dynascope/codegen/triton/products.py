"""Groups whose kernel multiplies matrices itself: what follows is computed where the product's elements are, without a way through memory.

    y = gelu(x @ w + b)       a block of x @ w in each program, summed in f32, and the group's body on that block

Blocks of a few rows go through all columns before the next rows come, so that neighbouring programs read the same operands (Triton's
tutorial on matrix multiplication, "L2 cache optimizations").
"""

from __future__ import annotations

from dynascope.codegen.target import DeviceModel
from dynascope.codegen.triton.draft import Draft, GroupFacts
from dynascope.codegen.triton.kernel import TritonKernel
from dynascope.codegen.triton.pointwise import all_indices
from dynascope.codegen.triton.tile import Axis, Tile, needs_wide, place_axis
from dynascope.loops.index import Index, Symbol, linear, variable
from dynascope.loops.nodes import TensorView
from dynascope.schedule.groups import MatrixProduct
from dynascope.sizes import blocks_of, is_constant

TOGETHER = 8
"""Blocks of rows whose programs run side by side."""


def emit_product(facts: GroupFacts, device: DeviceModel) -> TritonKernel:
    product = facts.group.product
    assert product is not None
    tiling, (rows, columns), count = product.tiling, _sizes(product), product.first.sizes[1]
    lane = Axis("lane", facts.group.rows[product.split :], tiling.columns)
    axes = (Axis("row", facts.group.rows[: product.split], tiling.rows), lane) if rows > 1 else (lane,)
    operands = [_positions(view) for view in product.operands]
    draft = Draft(facts, Tile(axes, needs_wide([*all_indices(facts), *operands], axes)))
    take, write, wide = draft.names.take, draft.writer.write, ".to(tl.int64)" if draft.tile.wide else ""
    row_block, column_block, there, across, inside = map(take, ("row_block", "column_block", "rows_at", "columns_at", "inner"))
    write("program = tl.program_id(0)")
    _write_blocks(draft, row_block, column_block, blocks_of(rows, tiling.rows), blocks_of(columns, tiling.columns))
    write(f"{there} = {row_block} * {tiling.rows} + tl.arange(0, {tiling.rows})[:, None]{wide}")
    write(f"{across} = {column_block} * {tiling.columns} + tl.arange(0, {tiling.columns})[None, :]{wide}")
    write(f"{inside} = tl.arange(0, {tiling.inner}){wide}")
    pointers = {parameter.source: parameter.name for parameter in draft.parameters}
    first, second = take("first_at"), take("second_at")
    write(f"{first} = {pointers[product.first.buffer]} + {_address(product.first, there, f'{inside}[None, :]')}")
    write(f"{second} = {pointers[product.second.buffer]} + {_address(product.second, f'{inside}[:, None]', across)}")
    row_mask = f"{there} < {rows}" if rows % tiling.rows else ""
    column_mask = f"{across} < {columns}" if columns % tiling.columns else ""
    total = draft.printer.multiplied = take("multiplied")
    write(f"{total} = tl.zeros([{tiling.rows}, {tiling.columns}], tl.float32)")
    left, right = take("left"), take("right")
    with draft.writer.block(f"for step in range(0, {count}, {tiling.inner}):"):
        ends = f"< {count} - step" if count % tiling.inner else ""
        write(f"{left} = tl.load({first}{_masked(row_mask, f'{inside}[None, :] {ends}' if ends else '')})")
        write(f"{right} = tl.load({second}{_masked(column_mask, f'{inside}[:, None] {ends}' if ends else '')})")
        write(f"{total} = tl.dot({left}, {right}, {total})")
        write(f"{first} += {tiling.inner * product.first.strides[1]}")
        write(f"{second} += {tiling.inner * product.second.strides[0]}")
    if product.added is not None:
        at = _address(product.added, there if rows > 1 else "", across)
        mask = _masked(row_mask if product.added.strides[0] else "", column_mask if product.added.strides[1] else "")
        read = f"tl.load({pointers[product.added.buffer]} + {at}{mask}).to(tl.float32)"
        write(f"{total} += {read if rows > 1 else f'tl.where({row_mask}, {read}, 0.0)'}")
    if rows == 1:
        write(f"{total} = tl.sum({total}, 0)")  # the other rows of the block are zero
    for axis, block in zip(axes, (row_block, column_block)[-len(axes) :], strict=True):
        draft.writer.write_all(place_axis(draft.tile, axis, f"{block} * {axis.block}"))
    draft.printer.emit(range(len(facts.body)))
    return draft.finish(blocks_of(rows, tiling.rows) * blocks_of(columns, tiling.columns), tiling.warps, tiling.stages)


def _sizes(product: MatrixProduct) -> tuple[int, int]:
    return product.first.sizes[0], product.second.sizes[1]


def _positions(view: TensorView) -> Index:
    loops = (variable(Symbol(name, size)) for name, size in zip("mn", view.sizes, strict=True))
    return linear(loops, view.strides, view.offset)


def _address(view: TensorView, row: str, column: str) -> str:
    parts = [
        place if is_constant(stride, 1) else f"{place} * {stride}"
        for place, stride in zip((row, column), view.strides, strict=True)
        if place and not is_constant(stride, 0)
    ]
    return "(" + " + ".join([*parts, *([str(view.offset)] if view.offset or not parts else [])]) + ")"


def _masked(*masks: str) -> str:
    used = [mask for mask in masks if mask]
    if not used:
        return ""
    joined = used[0] if len(used) == 1 else " & ".join(f"({mask})" for mask in used)
    return f", mask={joined}, other=0"


def _write_blocks(draft: Draft, row_block: str, column_block: str, row_blocks: int, column_blocks: int) -> None:
    """Which block is this program's."""
    write, take = draft.writer.write, draft.names.take
    if row_blocks == 1:
        write(f"{row_block} = 0")
        write(f"{column_block} = program")
        return
    row, many = take("first_block"), take("row_blocks")
    write(f"{row} = program // {TOGETHER * column_blocks} * {TOGETHER}")
    write(f"{many} = tl.minimum({row_blocks} - {row}, {TOGETHER})")
    write(f"{row_block} = {row} + program % {TOGETHER * column_blocks} % {many}")
    write(f"{column_block} = program % {TOGETHER * column_blocks} // {many}")
