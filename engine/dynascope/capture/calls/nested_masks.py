"""The encoder's question whether a padding mask hides only the ends of rows: then it may leave these out, in nested tensors.

With gradients to compute it never does, and asks all the same, before it looks at what requires them: the answer is of no
use then, and yes leads to the look.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from dynascope.capture.calls.arguments import Arguments, Keywords
from dynascope.capture.calls.registry import meaning
from dynascope.capture.calls.tensors import apply_function
from dynascope.capture.protocols import gradient_requirements
from dynascope.capture.values import TRUE, InstanceValue, Value

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine


@meaning(torch._nested_tensor_from_mask_left_aligned)
def is_left_aligned(machine: Machine, arguments: Arguments, keywords: Keywords) -> Any:
    gradient_requirements.check_unchanged(machine, machine.requirements)
    if torch.is_grad_enabled() and requires_gradients(machine):
        return TRUE
    return apply_function(machine, torch._nested_tensor_from_mask_left_aligned, arguments, keywords)


def requires_gradients(machine: Machine) -> bool:
    """Whether the encoder that asks finds so: of its first layer's parameters, which it reads itself if the answer is yes."""
    asking: Value | None = machine.frames[-1].slots.get("self")
    encoder = machine.realize(asking) if asking is not None else None
    if not isinstance(encoder, InstanceValue) or not issubclass(type(encoder.object), torch.nn.TransformerEncoder):
        return False
    layer = encoder.object.layers[0]
    found = getattr(layer, "linear1", None)
    return isinstance(found, torch.nn.Linear) and found.weight.requires_grad
