"""What a custom function keeps on its context by an attribute, not by `save_for_backward`: nobody looks whether it changes.

    ctx.x = x                  the backward pass reads what x holds then

Inside a region contents are values. Where such a tensor is an input or a result, the program can write to it after the region: then its
memory is kept, and read in the backward pass. So what the two passes compute of it are two values, and that of the forward pass is not
computed again:

    forward: x * t.exp()       backward: gradient * t.exp(), of what `t` holds by then
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from dynascope.grad.operators import is_view
from dynascope.grad.reasons import DifferentiationRefused, OutputNotReproducible

if TYPE_CHECKING:
    from dynascope.grad.outputs import Results
    from dynascope.grad.record import Recorder
    from dynascope.grad.tape import Step

WHY = "a custom function keeps it as an attribute, and its backward pass reads what it holds then"


def describe_held(recorder: Recorder, results: Results, names: Sequence[str], outputs: Sequence[Any]) -> None:
    """Fills in which inputs and which forward outputs are held. Refuses where it lies in memory that is none of these as it is."""
    if not recorder.held:
        return
    tensors = ((at, output) for at, output in enumerate(outputs) if isinstance(output, torch.Tensor))
    visible = {id(recorder.memory.cell(output)): f"{at}" for at, output in tensors}
    computed = {id(value): number for number, value in enumerate(results.computed)}
    for tensor in recorder.held:
        cell = recorder.memory.cell(tensor)
        if cell is None:
            continue
        if cell.input_index is not None and not cell.writes:
            results.held_inputs.add(cell.input_index)
        elif id(cell) in visible or cell.input_index is not None:
            number = computed.get(id(cell.values.get(cell.root)))
            if number is None or cell.writes:
                name = names[cell.input_index] if cell.input_index is not None else visible[id(cell)]
                raise DifferentiationRefused(OutputNotReproducible(f"`{name}`", WHY))
            results.held_outputs.add(number)


def held_values(inputs: Sequence[Any], results: Results, steps: Iterable[Step]) -> set[int]:
    """The identities of the values whose memory the backward pass reads as it is then, views of them among these. Where autograd itself
    keeps one too, a write is an error."""
    held = {id(inputs[at]) for at in results.held_inputs - results.kept_inputs}
    held |= {id(results.computed[number]) for number in results.held_outputs if number not in results.kept_outputs}
    for step in steps if held else ():
        if is_view(step.target) and not held.isdisjoint(map(id, step.inputs())):
            held.update(map(id, step.outputs))
    return held


def of_what_was_held(steps: Iterable[Step], held: set[int]) -> set[int]:
    """The identities of what is computed of them: from what they hold at that step, and never again."""
    steps = (step for step in steps if not is_view(step.target)) if held else ()
    return {id(output) for step in steps if not held.isdisjoint(map(id, step.inputs())) for output in step.outputs}
