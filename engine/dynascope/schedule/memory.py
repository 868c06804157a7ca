"""The memory plan: when each buffer comes to be, when it is free, and whose memory it takes over."""

from __future__ import annotations

from dynascope.loops.nodes import Buffer, ExternCall, LoopProgram
from dynascope.schedule.groups import Allocation, Border, FusionGroup, ScatterGroup, Schedule, Step
from dynascope.schedule.inline_plan import views_in
from dynascope.sizes import hint_of


def plan(program: LoopProgram, steps: tuple[Step, ...], borders: tuple[Border, ...]) -> Schedule:
    """Buffers of equal size and device are reused once nobody reads them; outputs keep their own memory."""
    last_use = _last_uses(steps)
    returned = {view.buffer for view in views_in(program.outputs)}
    allocations, releases = [], []
    free: dict[tuple, list[str]] = {}
    pooled = _poolable(steps)
    made: set[str] = set()
    held = peak = 0
    for number, step in enumerate(steps):
        for name in allocated_by(step):
            if name in made or program.buffers[name].role != "temporary":
                continue
            made.add(name)
            buffer = program.buffers[name]
            pool = free.get(_shape_class(buffer), [])
            reuses = (
                pool.pop() if pool and name not in returned else _given_up(step, number, last_use, returned, pooled)
            )
            allocations.append(Allocation(name, number, reuses))
            held += 0 if reuses else hint_of(buffer.bytes)
        peak = max(peak, held)
        for name in _dying(step, number, last_use, returned, program):
            releases.append((number, name))
            buffer = program.buffers[name]
            if any(a.reuses == name and a.before == number for a in allocations):
                continue
            if name in pooled:
                free.setdefault(_shape_class(buffer), []).append(name)
            else:
                held -= hint_of(buffer.bytes)
    return Schedule(
        program, steps, borders, tuple(allocations), tuple(releases), program.buffers, program.outputs, peak
    )


def _given_up(
    step: Step, number: int, last_use: dict[str, int], returned: set[str], pooled: frozenset[str]
) -> str | None:
    """The base of a scatter, where nobody needs it afterwards: the result is made in its memory, without a copy."""
    if not isinstance(step, ScatterGroup):
        return None
    base = step.node.base
    return base if base in pooled and base not in returned and last_use[base] == number else None


def reads(step: Step) -> tuple[str, ...]:
    if isinstance(step, ExternCall):
        return tuple(dict.fromkeys(view.buffer for view in views_in((step.arguments, step.keywords))))
    if isinstance(step, ScatterGroup):
        return (step.node.base, *step.group.reads)
    return step.reads


def makes(step: Step) -> tuple[str, ...]:
    """Buffers that exist after the step and did not before."""
    if isinstance(step, ExternCall):
        return tuple(r.name for r in step.results if isinstance(r, Buffer))
    return step.group.writes if isinstance(step, ScatterGroup) else step.writes


def allocated_by(step: Step) -> tuple[str, ...]:
    """Buffers that the wrapper allocates before the step; an extern call makes its own."""
    return () if isinstance(step, ExternCall) else makes(step)


def _last_uses(steps: tuple[Step, ...]) -> dict[str, int]:
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
    """Whether a result of the call may share memory with an operand."""
    schema = getattr(step.operator, "_schema", None)
    return (
        schema is None
        or schema.name in UNDECLARED_VIEWS
        or any(returned.alias_info is not None for returned in schema.returns)
    )


def _shape_class(buffer: Buffer) -> tuple:
    return (buffer.dtype, buffer.device, buffer.sizes, buffer.strides)
