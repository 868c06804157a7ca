"""What a custom function keeps on its context by an attribute, not by `save_for_backward`: nobody looks whether it changes.

    ctx.x = x                  the backward pass reads what x holds then

Inside a region contents are values. Where such a tensor is an input or a result, the program can write to it after the region: then its
memory is kept, and read in the backward pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from dynascope.grad.reasons import DifferentiationRefused, OutputNotReproducible

if TYPE_CHECKING:
    from dynascope.grad.outputs import Results
    from dynascope.grad.record import Recorder

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
