"""What a memory begins as, where writes into parts cover it before anybody reads it: that is not made.

    a = full(0); column 0 of a written; column 1 of a written; a is returned, of two columns      ->      without the first step

    without_unread_starts(program, steps)  ->  the steps

So begins what `empty`, `zeros` or a copy made for parts alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from dynascope.loops.inlining import without_unused
from dynascope.loops.nodes import (
    Buffer,
    CheckIndex,
    Constant,
    ExternCall,
    Load,
    LoopProgram,
    Operation,
    Store,
    TensorView,
    views_in,
)
from dynascope.loops.regions import Region, covered, is_exact, region, region_of
from dynascope.schedule import memory
from dynascope.schedule.emission import finished
from dynascope.schedule.groups import FusionGroup, ScatterGroup, Step


def without_unread_starts(program: LoopProgram, steps: tuple[Step, ...]) -> tuple[Step, ...]:
    parts = {name for step in steps if isinstance(step, FusionGroup) for name in step.parts}
    left = list(steps)
    for name in sorted(parts):
        buffer = program.buffers[name]
        first = next((n for n, step in enumerate(left) if name in memory.makes(step)), None)
        if first is None or buffer.role != "temporary" or not _makes_all(left[first], name):
            continue
        if _is_written_first(buffer, left[first + 1 :], program):
            left[first : first + 1] = _without(left[first], name)  # type: ignore[arg-type]
    return tuple(left)


def _makes_all(step: Step, name: str) -> bool:
    return isinstance(step, FusionGroup) and name not in step.parts and step.product is None and name not in step.reads


def _is_written_first(buffer: Buffer, later: list[Step], program: LoopProgram) -> bool:
    """Whether each element that is read, or returned, was written by one of the steps before."""
    written: list[Region] = []
    for step in later:
        if not all(covered(part, written, buffer) for part in _read(step, buffer)):
            return False
        written += _written(step, buffer)
    return all(covered(part, written, buffer) for part in _seen(program.outputs, buffer))


def _read(step: Step, buffer: Buffer) -> Iterator[Region]:
    """What a step reads of the buffer that its own iterations have not written."""
    if isinstance(step, ExternCall):
        yield from _seen((step.arguments, step.keywords), buffer)
        return
    if isinstance(step, ScatterGroup) and buffer.name in (step.node.base, step.node.result.name):
        yield region_of(_whole(buffer), buffer)
    group = step.group if isinstance(step, ScatterGroup) else step
    if group.product is not None and buffer.name in group.product.buffers:
        yield region_of(_whole(buffer), buffer)
    own = set()
    for operation in group.body:
        if not isinstance(operation, (Load, Store)) or operation.buffer != buffer.name:
            continue
        if isinstance(operation, Store) and operation.mode == "set":
            own |= set() if group.columns else {operation.index}
        elif operation.index not in own:
            yield region(operation.index, buffer)


def _seen(value: object, buffer: Buffer) -> Iterator[Region]:
    for view in views_in(value):
        if view.buffer == buffer.name:
            yield region_of(view if view.dtype == buffer.dtype else _whole(buffer), buffer)


def _whole(buffer: Buffer) -> TensorView:
    return TensorView(buffer.name, buffer.dtype, buffer.sizes, buffer.strides, 0)


def _written(step: Step, buffer: Buffer) -> Iterator[Region]:
    if isinstance(step, FusionGroup):
        for operation in step.body:
            if isinstance(operation, Store) and operation.buffer == buffer.name and operation.mode == "set":
                if is_exact(operation.index, buffer):
                    yield region(operation.index, buffer)


def _without(step: FusionGroup, name: str) -> tuple[FusionGroup, ...]:
    """The step without what it makes of a buffer; nothing where it does nothing else."""
    body = without_unused(tuple(_kept(step, name)))
    if not any(isinstance(operation, (Store, CheckIndex)) for operation in body):
        return ()
    group = finished(step.device, body, step.rows, step.columns)
    return (replace(group, in_place=step.in_place & frozenset(group.reads), parts=step.parts & frozenset(group.writes)),)


def _kept(step: FusionGroup, name: str) -> Iterator[Operation]:
    """A body's stores are no operands, but they have numbers."""
    for operation in step.body:
        is_dropped = isinstance(operation, Store) and operation.buffer == name
        yield Constant(operation.dtype, (), operation.origin, 0) if is_dropped else operation
