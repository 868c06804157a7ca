"""The memory plan: when each buffer comes to be, when it is free, and whose memory it takes over.

Memory that is free goes back to torch's allocator, which has it for whatever comes next. A kernel's result takes over the memory of a
buffer of the same layout where that costs nothing: the buffer has just died, or no more is held meanwhile than at the peak anyway.
"""

from __future__ import annotations

from typing import Any

from dynascope.loops.nodes import Buffer, ExternCall, LoopProgram
from dynascope.schedule.collectives import is_collective
from dynascope.schedule.groups import Allocation, Border, FusionGroup, ScatterGroup, Schedule, Step
from dynascope.schedule.inline_plan import views_in
from dynascope.sizes import hint_of

LONGEST_WAIT = 256
"""Steps that memory waits for its next use."""


def plan(program: LoopProgram, steps: tuple[Step, ...], borders: tuple[Border, ...]) -> Schedule:
    """Buffers of equal layout and device are reused once nobody reads them; outputs keep their own memory."""
    last_use = last_uses(steps)
    returned = {view.buffer for view in views_in(program.outputs)}
    held = held_bytes(program, steps, last_use, returned)
    peak = max(held, default=0)
    allocations, releases = [], []
    free: dict[tuple, list[tuple[str, int]]] = {}
    pooled = _poolable(steps)
    made: set[str] = set()
    for number, step in enumerate(steps):
        given_up = None
        made.update(makes(step) if isinstance(step, ExternCall) else ())
        for name in allocated_by(step):
            buffer = program.buffers[name]
            if name in made or buffer.role != "temporary":
                continue
            made.add(name)
            reuses = None if name in returned else _free_memory(buffer, number, free, held, peak)
            if reuses is None:
                reuses = given_up = _given_up(step, number, last_use, returned, pooled, program.buffers)
            allocations.append(Allocation(name, number, reuses))
        for name in _dying(step, number, last_use, returned, program):
            releases.append((number, name))
            if name in pooled and name != given_up:
                free.setdefault(_shape_class(program.buffers[name]), []).append((name, number))
    return Schedule(program, steps, borders, tuple(allocations), tuple(releases), program.buffers, program.outputs, peak, tuple(held))


def held_bytes(
    program: LoopProgram, steps: tuple[Step, ...], last_use: dict[str, int], returned: set[str]
) -> list[int]:
    """At each step, the bytes that the graph has made and somebody still needs, results of library calls included."""
    changes = [0] * (len(steps) + 1)
    born: set[str] = set()
    for number, step in enumerate(steps):
        for name in makes(step):
            buffer = program.buffers[name]
            if name not in born and buffer.role == "temporary":
                born.add(name)
                changes[number] += hint_of(buffer.bytes)
                if name not in returned:
                    changes[last_use[name] + 1] -= hint_of(buffer.bytes)
    held, total = [], 0
    for change in changes[: len(steps)]:
        total += change
        held.append(total)
    return held


def _free_memory(
    buffer: Buffer, number: int, free: dict[tuple, list[tuple[str, int]]], held: list[int], peak: int
) -> str | None:
    """A dead buffer of the same layout, the latest first, that may wait until this step."""
    pool = free.get(_shape_class(buffer))
    size = hint_of(buffer.bytes)
    while pool:
        name, died = pool.pop()
        between = range(died + 1, number)
        if len(between) <= LONGEST_WAIT and all(held[at] + size <= peak for at in between):
            for at in between:
                held[at] += size
            return name
    return None


def _given_up(
    step: Step, number: int, last_use: dict[str, int], returned: set[str], pooled: frozenset[str], buffers: dict[str, Buffer]
) -> str | None:
    """The base of a scatter, where nobody needs it afterwards: the result is made in its memory, without a copy. Not where the base
    is a view of other sizes: whoever is handed the result would see those of the memory."""
    if not isinstance(step, ScatterGroup):
        return None
    base = step.node.base
    if _shape_class(buffers[base]) != _shape_class(step.node.result):
        return None
    is_free = base in pooled and base not in returned and base not in step.group.reads and last_use[base] == number
    return base if is_free else None


def reads(step: Step) -> tuple[str, ...]:
    if isinstance(step, ExternCall):
        return tuple(dict.fromkeys(view.buffer for view in views_in((step.arguments, step.keywords))))
    if isinstance(step, ScatterGroup):
        return (step.node.base, *step.group.reads)
    return tuple(dict.fromkeys((*step.reads, *(base for _, base in step.bases)))) if step.bases else step.reads


def makes(step: Step) -> tuple[str, ...]:
    """Buffers that exist after the step and did not before."""
    if isinstance(step, ExternCall):
        return tuple(r.name for r in step.results if isinstance(r, Buffer))
    return step.group.writes if isinstance(step, ScatterGroup) else step.writes


def allocated_by(step: Step) -> tuple[str, ...]:
    """Buffers that the wrapper allocates before the step; an extern call makes its own."""
    return () if isinstance(step, ExternCall) else makes(step)


def last_uses(steps: tuple[Step, ...]) -> dict[str, int]:
    """By buffer the last step that reads or makes it."""
    last: dict[str, int] = {}
    for number, step in enumerate(steps):
        for name in (*reads(step), *makes(step)):
            last[name] = number
    return last


def _dying(step: Step, number: int, last_use: dict[str, int], returned: set[str], program: LoopProgram) -> list[str]:
    names = dict.fromkeys((*reads(step), *makes(step)))
    return [n for n in names if last_use[n] == number and n not in returned and program.buffers[n].role == "temporary"]


def _poolable(steps: tuple[Step, ...]) -> frozenset[str]:
    """Buffers that kernels write, but for those of which a library call may have returned a view."""
    written, viewed = set(), set()
    for step in steps:
        if isinstance(step, FusionGroup):
            written.update(step.writes)
        elif isinstance(step, ExternCall) and may_return_view(step):
            viewed.update(reads(step))
    return frozenset(written - viewed)


UNDECLARED_VIEWS = ("aten::unsafe_split", "aten::unsafe_split_with_sizes", "aten::_unsafe_view")
"""Operators whose schema says that their results are new, and whose results are views."""


def may_return_view(step: ExternCall) -> bool:
    """Whether a result of the call may share memory with an operand, or the call goes on reading that after it has returned."""
    schema = getattr(step.operator, "_schema", None)
    return (
        schema is None
        or is_collective(step.operator)
        or schema.name in UNDECLARED_VIEWS
        or any(returned.alias_info is not None for returned in schema.returns)
        or may_keep_operands(schema)
    )


COMPUTE_ONLY = ("aten", "prims", "dynascope")


def may_keep_operands(schema: Any) -> bool:
    """Whether operands are read after the call has returned, through what it keeps beside its results: operators of the program's may, and
    a `history` of ours holds what autograd recorded (`meta_kernels.recurrent`)."""
    return schema.name.partition("::")[0] not in COMPUTE_ONLY or any(returned.name == "history" for returned in schema.returns)


def _shape_class(buffer: Buffer) -> tuple:
    return (buffer.dtype, buffer.device, buffer.sizes, buffer.strides)
