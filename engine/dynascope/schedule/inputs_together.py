"""What is computed of the graph's inputs alone, for tensors of one size, is computed by one kernel on a GPU.

    a = w1.bfloat16(); y = x @ a; b = w2.bfloat16(); z = y @ b      ->      one kernel: a, b;  y = x @ a;  z = y @ b

Under autocast a model has such a step for each weight and bias, and most take less time than their launch. The kernel stands where
the first of them stood: so only what the caller gets anyway (weights that the backward pass reads), or what is small, is made early.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from typing import TypeGuard

from dynascope.loops.body import BodyBuilder, instantiate
from dynascope.loops.nodes import Buffer, Compute, Constant, ExternCall, Load, LoopProgram, Store
from dynascope.schedule.emission import finished
from dynascope.schedule.groups import FusionGroup, Step
from dynascope.schedule.inline_plan import views_in
from dynascope.schedule.last_writes import Mutations
from dynascope.sizes import Size

MOST_TOGETHER = 12
"""More leave a thread fewer registers for each."""
LONGEST_BODY = 8
SMALL_BYTES = 1 << 16


def with_inputs_together(program: LoopProgram, steps: tuple[Step, ...], mutations: Mutations = ()) -> tuple[Step, ...]:
    if not any(map(is_short, steps)):
        return steps
    fixed = {buffer.name for buffer in program.inputs if isinstance(buffer, Buffer)} - written_by_calls(steps)
    returned = {view.buffer for view in views_in(program.outputs)}
    changed = changed_by(program, mutations)
    rows: dict[Hashable, list[int]] = {}
    for number, step in enumerate(steps):
        if is_short(step) and fixed.issuperset(step.reads) and changed.isdisjoint(step.writes):
            if all(name in returned or _is_small(program.buffers[name]) for name in step.writes):
                rows.setdefault(kind_of(step), []).append(number)
    found: list[Step | None] = list(steps)
    for numbers in rows.values():
        for first in range(0, len(numbers), MOST_TOGETHER):
            together = numbers[first : first + MOST_TOGETHER]
            if len(together) > 1:
                found[together[0]] = joined([step for number in together if isinstance(step := steps[number], FusionGroup)])
                for number in together[1:]:
                    found[number] = None
    return tuple(step for step in found if step is not None)


def changed_by(program: LoopProgram, mutations: Mutations) -> set[str]:
    """What inputs become: it is written after everything that allocates."""
    return {view.buffer for _, output in mutations for view in views_in([program.outputs[output]])}


def written_by_calls(steps: Iterable[Step]) -> set[str]:
    """What a library call, or an operator of the program's, may write to."""
    return {
        view.buffer
        for step in steps
        if isinstance(step, ExternCall) and getattr(getattr(step.operator, "_schema", None), "is_mutable", True)
        for view in views_in((step.arguments, step.keywords))
    }


def is_short(step: Step) -> TypeGuard[FusionGroup]:
    """Whether it is a kernel on a GPU that goes element by element over sizes that are known, and does little with each."""
    if not isinstance(step, FusionGroup) or step.device.type == "cpu" or step.columns or step.product is not None or step.bases:
        return False
    if len(step.body) > LONGEST_BODY or not step.reads or any(isinstance(row.extent, Size) for row in step.rows):
        return False
    return all(
        isinstance(operation, (Compute, Constant))
        or (isinstance(operation, Load) and not operation.index.loaded)
        or (isinstance(operation, Store) and operation.mode == "set" and not operation.index.loaded)
        for operation in step.body
    )


def kind_of(step: FusionGroup) -> Hashable:
    """What those have in common that one kernel may do. Loops of one number of elements have one name wherever they are."""
    return step.device, step.rows, step.origins[0].piece


def _is_small(buffer: Buffer) -> bool:
    return not isinstance(buffer.bytes, Size) and buffer.bytes <= SMALL_BYTES


def joined(steps: Sequence[FusionGroup]) -> FusionGroup:
    """One step for several of a kind."""
    builder = BodyBuilder(steps[0].origins[0])
    for step in steps:
        numbers: dict[int, int] = {}
        for at, operation in enumerate(step.body):
            numbers[at] = builder.append(instantiate(operation, numbers.__getitem__, lambda index: index))
    rows = steps[0].rows
    return replace(finished(steps[0].device, builder.body, rows, ()), plain=(builder.body, rows))
