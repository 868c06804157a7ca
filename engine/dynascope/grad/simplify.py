"""Steps that change nothing: duplicates, and steps nobody reads.

t1 = t(w); t2 = t(w)   ->   t1 alone
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from dynascope.grad.held import held_values
from dynascope.grad.outputs import Results
from dynascope.grad.tape import Number, Step, Tape, Value, replace
from dynascope.meta_kernels.frozen import frozen, plain

aten = torch.ops.aten


def simplify(tape: Tape, inputs: Sequence[Any], results: Results, gradients: list[Value | None]) -> None:
    """Rewrites the tape, and the values that `results` and `gradients` name."""
    held = held_values(inputs, results, tape.steps)
    renamed: dict[int, Value | Number | None] = {}
    current = lambda leaf: renamed.get(id(leaf), leaf) if isinstance(leaf, (Value, Number)) else leaf  # noqa: E731
    seen: dict[Any, Step] = {}
    kept: list[Step] = []
    placed = {id(step.arguments[0]) for step in tape.steps if step.target in PLACED}
    for step in tape.steps:
        if renamed and not renamed.keys().isdisjoint(map(id, step.inputs())):
            step.arguments, step.keywords = replace(step.arguments, current), replace(step.keywords, current)
        if _is_identity_copy(step) and id(step.outputs[0]) not in placed and not _is_copy_of_held(step, held):
            renamed[id(step.outputs[0])] = step.arguments[0]
            continue
        if step.target in SCATTERS:
            _without_what_is_overwritten(step)
        twin = step if step.has_effect else _first_of(seen, step, held)
        if twin is step:
            kept.append(step)
            continue
        renamed.update({id(old): new for old, new in zip(step.outputs, twin.outputs, strict=True)})
    results.computed[:] = [current(value) for value in results.computed]
    for mutated in results.mutated:
        mutated.value = current(mutated.value)
    gradients[:] = [current(value) for value in gradients]
    tape.steps[:] = used(kept, [*results.computed, *(m.value for m in results.mutated), *gradients])


def used(steps: list[Step], wanted: list[Any]) -> list[Step]:
    """The steps that `wanted` needs, in their order, and those that do something: advance a generator, check for an error."""
    needed = {id(value) for value in wanted}
    kept = []
    for step in reversed(steps):
        if step.has_effect or not needed.isdisjoint(map(id, step.outputs)):
            kept.append(step)
            needed.update(map(id, step.inputs()))
    return kept[::-1]


def _is_identity_copy(step: Step) -> bool:
    """A copy of the same dtype, device and strides: no step changes its input, so the input itself serves."""
    if step.target not in (aten.clone.default, aten._to_copy.default):
        return False
    return step.arguments[0].layout == step.outputs[0].layout  # type: ignore[union-attr]


def _is_copy_of_held(step: Step, held: set[int]) -> bool:
    """The backward pass may read the copy: then it is of what was there before."""
    return step.phase == "forward" and bool(held) and id(step.arguments[0]) in held


SCATTERS = (aten.select_scatter.default, aten.slice_scatter.default, aten.as_strided_scatter.default)
PLACED = (aten.as_strided.default, aten.as_strided_scatter.default)
"""They count from where the memory begins: a copy of what they read is there for the sake of its own memory."""


def _without_what_is_overwritten(step: Step) -> None:
    """A part that is written twice, as by `x[n] += 1` (the sum to what `x[n]` shows, then that to `x[n]`), is written once."""
    base = step.arguments[0]
    earlier = getattr(base, "step", None)
    while earlier is not None and earlier.target is step.target and earlier.outputs[0].layout == step.outputs[0].layout:
        if repr((earlier.arguments[2:], earlier.keywords)) != repr((step.arguments[2:], step.keywords)):
            return
        if earlier.arguments[0].layout != base.layout:
            return
        base = earlier.arguments[0]
        step.arguments = (base, *step.arguments[1:])
        earlier = base.step


def _first_of(seen: dict[Any, Step], step: Step, held: set[int]) -> Step:
    """The first step that computes the same, which may be this one. Of what is held each pass computes something else."""
    phase = step.phase if held and not held.isdisjoint(map(id, step.inputs())) else ""
    try:
        # The identity stands for the operator: steps keep theirs alive, and its own hash is computed in Python each time.
        return seen.setdefault((id(step.target), phase, frozen(step.arguments, _leaf), frozen(step.keywords, _leaf)), step)
    except TypeError:  # of an argument that cannot be compared
        return step


def _leaf(data: Any) -> Any:
    kind = type(data)
    return id(data) if kind is Value or kind is Number else plain(data)
