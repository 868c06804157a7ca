"""Kernels that write over what a library call made, where nobody reads that afterwards.

    m = convolution(x, w); y = relu(m); del m       ->       m = convolution(x, w); m = relu(m)

    overwriting(schedule)  ->  the schedule in which such results have no memory of their own

Only where each element is read by the iteration that writes it, before it writes. What a library call gives may be another tensor's
memory, whatever its schema says (`native_dropout` hands on its operand): those taken here always make a new one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from dynascope.loops.layouts import is_dense
from dynascope.loops.nodes import Buffer, ExternCall
from dynascope.schedule import memory
from dynascope.schedule.groups import FusionGroup, ScatterGroup, Schedule, Step
from dynascope.schedule.in_place import reads_before, storing_to
from dynascope.schedule.inline_plan import views_in
from dynascope.schedule.renaming import reading
from dynascope.sizes import same

MAKE_NEW = frozenset(f"aten.{name}.default" for name in ("mm", "addmm", "bmm", "baddbmm", "convolution"))


def overwriting(schedule: Schedule) -> Schedule:
    calls = (step for step in schedule.steps if isinstance(step, ExternCall) and str(step.operator) in MAKE_NEW)
    made = {name for call in calls for name in memory.makes(call)}
    if not made:
        return schedule
    kept = {view.buffer for view in views_in(schedule.outputs)}
    kept |= {name for step in schedule.steps if _hands_on(step) for name in memory.reads(step)}
    makers = Counter(name for step in schedule.steps for name in memory.makes(step))
    kept |= {name for name, count in makers.items() if count > 1}  # each writes a part
    last = memory.last_uses(schedule.steps)
    names: dict[str, str] = {}
    steps: list[Step] = []
    for number, step in enumerate(schedule.steps):
        if isinstance(step, FusionGroup):
            dying = [name for name in step.reads if name in made - kept and last[name] == number and name not in names.values()]
            for result, target in _pairs(step, dying, kept, schedule.buffers):
                names[result] = target
                step = storing_to(step, result, target)
        steps.append(reading(step, names))
    return memory.plan(schedule.program, tuple(steps), schedule.borders) if names else schedule


def _hands_on(step: Step) -> bool:
    """Whether another name may be seen through, or renamed, of what the step reads."""
    return isinstance(step, ScatterGroup) or (isinstance(step, ExternCall) and memory.may_return_view(step))


def _pairs(group: FusionGroup, dying: list[str], kept: set[str], buffers: dict[str, Buffer]) -> Iterator[tuple[str, str]]:
    """(result, whose memory it takes)"""
    free = list(dying)
    for result in group.writes:
        if result in kept or buffers[result].role != "temporary" or result in group.reads:
            continue
        target = next((name for name in free if _as_large(buffers[name], buffers[result]) and reads_before(group, name, result)), None)
        if target is not None:
            free.remove(target)
            yield result, target


def _as_large(one: Buffer, other: Buffer) -> bool:
    """Whether one's memory holds the other, which may be seen with other sizes: places in kernels are flat."""
    return (one.dtype, one.device) == (other.dtype, other.device) and same(one.elements, other.elements) and is_dense(one)
