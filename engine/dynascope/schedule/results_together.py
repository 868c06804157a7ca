"""What only becomes results, of tensors that nobody else reads, waits for others of its size on a GPU: one kernel then does it for several.

    g1 = mm1.float(); ...; g2 = mm2.float()      ->      ...; one kernel: g1, g2

Under autocast each weight's gradient is such a conversion. What waits is narrower than what it becomes, so less is held until then; where
it is done, no more than is held somewhere else.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from dynascope.loops.nodes import ExternCall, LoopProgram
from dynascope.schedule import memory
from dynascope.schedule.groups import FusionGroup, Step
from dynascope.schedule.inline_plan import views_in
from dynascope.schedule.inputs_together import MOST_TOGETHER, changed_by, is_short, joined, kind_of, written_by_calls
from dynascope.schedule.last_writes import Mutations
from dynascope.sizes import hint_of


def with_results_together(program: LoopProgram, steps: tuple[Step, ...], mutations: Mutations = ()) -> tuple[Step, ...]:
    kinds = _waiting(program, steps, mutations) if any(map(is_short, steps)) else {}
    if not any(len(numbers) > 1 for numbers in kinds.values()):
        return steps
    returned = {view.buffer for view in views_in(program.outputs)}
    held = memory.held_bytes(program, steps, memory.last_uses(steps), returned)
    peak = max(held)
    found: list[Step | None] = list(steps)
    for numbers in kinds.values():
        while numbers:
            together = numbers[:MOST_TOGETHER]
            while len(together) > 1 and held[together[-1]] + _bytes_read(program, steps, together[:-1]) > peak:
                together = together[: len(together) // 2]
            *others, last = together
            held[last] += _bytes_read(program, steps, others)
            if others:
                found[last] = joined([step for number in together if isinstance(step := steps[number], FusionGroup)])
            for number in others:
                found[number] = None
            numbers = numbers[len(together) :]
    return tuple(step for step in found if step is not None)


def _waiting(program: LoopProgram, steps: tuple[Step, ...], mutations: Mutations) -> dict[Hashable, list[int]]:
    """The places of steps that may wait, by their kinds."""
    last, written = memory.last_uses(steps), written_by_calls(steps)
    returned = {view.buffer for view in views_in(program.outputs)}
    changed = changed_by(program, mutations)
    shared = {name for step in steps if isinstance(step, ExternCall) and memory.may_return_view(step) for name in memory.reads(step)}
    kinds: dict[Hashable, list[int]] = {}
    for number, step in enumerate(steps):
        if not is_short(step) or not (returned - changed).issuperset(step.writes) or any(last[name] > number for name in step.writes):
            continue
        own = (name not in returned | written | shared and program.buffers[name].role == "temporary" for name in step.reads)
        if all(own) and all(last[name] == number for name in step.reads):
            if _bytes_read(program, steps, [number]) < sum(hint_of(program.buffers[name].bytes) for name in step.writes):
                kinds.setdefault(kind_of(step), []).append(number)
    return kinds


def _bytes_read(program: LoopProgram, steps: Sequence[Step], numbers: Sequence[int]) -> int:
    return sum(hint_of(program.buffers[name].bytes) for number in numbers for name in memory.reads(steps[number]))
