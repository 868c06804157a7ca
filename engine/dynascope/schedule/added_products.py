"""A product of matrices that is added to what nobody reads afterwards is added in its place. So is what the library scatters.

    gradient = addmm(before, a, b); del before      ->      before.addmm_(a, b)
    sums = index_put(zeros, [places], values, True) ->      zeros.index_put_([places], values, True)

    added_in_place(program, steps)  ->  the program with its outputs, and the steps
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import torch

from dynascope.loops.nodes import Buffer, ExternCall, LoopProgram, TensorView
from dynascope.schedule import memory
from dynascope.schedule.groups import Step
from dynascope.schedule.inline_plan import views_in
from dynascope.schedule.last_writes import same_memory
from dynascope.schedule.renaming import reading, renamed

aten = torch.ops.aten
TWINS = {
    aten.addmm.default: aten.addmm_.default,
    aten.baddbmm.default: aten.baddbmm_.default,
    aten.index_put.default: aten.index_put_.default,
    aten._unsafe_index_put.default: aten._index_put_impl_.default,
    aten.index_add.default: aten.index_add_.default,
    aten.index_copy.default: aten.index_copy_.default,
    aten.scatter_add.default: aten.scatter_add_.default,
    aten.scatter_reduce.two: aten.scatter_reduce_.two,
    aten.scatter.src: aten.scatter_.src,
    aten.scatter.value: aten.scatter_.value,
}
ADDED = {aten._unsafe_index_put.default: (True,)}
"""What the twin is told besides: that places were looked at already."""


def added_in_place(program: LoopProgram, steps: tuple[Step, ...]) -> tuple[LoopProgram, tuple[Step, ...]]:
    if not any(isinstance(step, ExternCall) and step.operator in TWINS for step in steps):
        return program, steps
    last = memory.last_uses(steps)
    last |= {view.buffer: len(steps) for view in views_in(program.outputs)}
    makers = Counter(name for step in steps for name in memory.makes(step))
    own = set(makers)
    own -= {name for step in steps if isinstance(step, ExternCall) and memory.may_return_view(step) for name in memory.reads(step)}
    names: dict[str, str] = {}
    found: list[Step] = []
    for number, step in enumerate(steps):
        target = _dying_operand(step, program) if isinstance(step, ExternCall) else None
        (result, *_) = step.results if target is not None else (None,)  # type: ignore[union-attr]
        if target is not None and last[target.name] == number and target.name in own and makers[result.name] == 1:  # type: ignore[union-attr]
            arguments = (*step.arguments, *ADDED.get(step.operator, ()))  # type: ignore[union-attr]
            step = replace(step, operator=TWINS[step.operator], arguments=arguments, results=(None,))  # type: ignore[union-attr]
            found.append(reading(step, names))
            names[result.name] = names.get(target.name, target.name)  # type: ignore[union-attr]
        else:
            found.append(reading(step, names))
    return replace(program, outputs=tuple(renamed(output, names) for output in program.outputs)), tuple(found)


def _dying_operand(step: ExternCall, program: LoopProgram) -> Buffer | None:
    """What is added to, or written into, where that is a buffer that it lies as the result in, and is read once."""
    first = step.arguments[0] if step.operator in TWINS else None
    result = step.results[0] if first is not None else None
    if not isinstance(first, TensorView) or result is None:
        return None
    target = program.buffers[first.buffer]
    is_read_once = [view.buffer for view in views_in((step.arguments, step.keywords))].count(target.name) == 1
    return target if is_read_once and same_memory(target, result, first) else None
