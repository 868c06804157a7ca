"""torch's encoder leaves out the ends of rows that a padding mask hides: its layers get nested tensors, and zeros take their places behind
these. It does so where a mask hides nothing but ends, and where no gradients are computed.

    encoder(x, src_key_padding_mask=hidden)     torch.where(seen | ~only_ends_are_hidden, layers(x, hidden), 0.0)

A layer computes the same at the places that are seen, whether it gets rows or a mask. So its rows are the padded tensor here
(`NestedValue`), for all masks, and what the run finds out of a mask decides what stands at the hidden places. The encoder asks for nothing
else of them than what stands below. Where a layer of the program's own does, it is captured again, and the question is a break.

With gradients to compute the encoder asks all the same, before it looks at what requires them: the answer is of no use then, and yes
leads to the look.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from dynascope.capture.calls.arguments import Arguments, Keywords
from dynascope.capture.calls.equivalents import enter
from dynascope.capture.calls.registry import meaning
from dynascope.capture.calls.tensors import apply_function
from dynascope.capture.nested_values import NestedValue
from dynascope.capture.protocols import attributes, gradient_requirements
from dynascope.capture.reasons import TensorSubclass
from dynascope.capture.signals import Break
from dynascope.capture.values import TRUE, ConstantValue, InstanceValue, MethodValue, TensorValue, Value, constant_of

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine

OF_THE_PADDED = ("dim", "dtype", "device", "requires_grad")
"""What rows and the padded tensor answer alike."""
KEY_PADDING = ConstantValue(1)
"""How torch numbers the kinds of masks."""


@meaning(torch._nested_tensor_from_mask_left_aligned)
def is_left_aligned(machine: Machine, arguments: Arguments, keywords: Keywords) -> Any:
    gradient_requirements.check_unchanged(machine, machine.requirements)
    encoder = encoder_that_asks(machine)
    if encoder is not None and torch.is_grad_enabled() and requires_gradients(encoder):
        return TRUE
    if encoder is not None and machine.options.leaves_out_rows and are_rows(*map(machine.realize, arguments)):
        machine.rows_asked_for = machine.frames[-1]
        return TRUE
    return apply_function(machine, torch._nested_tensor_from_mask_left_aligned, arguments, keywords)


def encoder_that_asks(machine: Machine) -> torch.nn.TransformerEncoder | None:
    frame = machine.frames[-1]
    asking: Value | None = frame.slots.get("self") if frame.function.code is torch.nn.TransformerEncoder.forward.__code__ else None
    encoder = machine.realize(asking) if asking is not None else None
    return encoder.object if isinstance(encoder, InstanceValue) and isinstance(encoder.object, torch.nn.TransformerEncoder) else None


def requires_gradients(encoder: torch.nn.TransformerEncoder) -> bool:
    """Whether the encoder finds so: of its first layer's parameters, which it reads itself if the answer is yes."""
    found = getattr(encoder.layers[0], "linear1", None)
    return isinstance(found, torch.nn.Linear) and found.weight.requires_grad


def are_rows(given: Value, seen: Value) -> bool:
    """Others are for torch to complain about."""
    if not isinstance(given, TensorValue) or not isinstance(seen, TensorValue):
        return False
    return given.example.dim() == 3 and seen.example.dtype is torch.bool and seen.example.shape == given.example.shape[:2]


@meaning(torch._nested_tensor_from_mask)
def rows(machine: Machine, arguments: Arguments, keywords: Keywords) -> Any:
    """Of the encoder that has asked."""
    if machine.rows_asked_for is not machine.frames[-1]:
        return apply_function(machine, torch._nested_tensor_from_mask, arguments, keywords)
    machine.journal.set(machine, "has_rows", True)
    padded, seen = map(machine.realize, arguments)
    return NestedValue(padded, seen)


@meaning(torch._transformer_encoder_layer_fwd)
def layer(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    given = machine.realize(arguments[0])
    if not isinstance(given, NestedValue) or any(constant_of(machine.realize(each)) is not None for each in arguments[-2:]):
        return apply_function(machine, torch._transformer_encoder_layer_fwd, arguments, keywords)
    hidden = apply_function(machine, torch.logical_not, [given.seen], {})
    masked = [given.padded, *arguments[1:-2], hidden, KEY_PADDING]
    return NestedValue(apply_function(machine, torch._transformer_encoder_layer_fwd, masked, {}), given.seen)


def attribute(machine: Machine, value: NestedValue, name: str) -> Value:
    if name in OF_THE_PADDED:
        return attributes.get(machine, value.padded, name)
    if name == "is_nested":
        return TRUE
    if name == "to_padded_tensor":
        return MethodValue(ConstantValue(torch.Tensor.to_padded_tensor), value)
    raise Break(TensorSubclass("nested tensor", machine.expression()))


@meaning(torch.Tensor.to_padded_tensor)
def to_padded(machine: Machine, arguments: Arguments, keywords: Keywords) -> Any:
    """Of rows, by the encoder that has made them: to the size that they had."""
    given = machine.realize(arguments[0])
    if not isinstance(given, NestedValue) or machine.rows_asked_for is not machine.frames[-1]:
        return apply_function(machine, torch.Tensor.to_padded_tensor, arguments, keywords)
    machine.journal.set(machine, "has_rows", False)
    return enter(machine, with_zeros, [given.padded, given.seen, arguments[1]])


def with_zeros(padded, seen, padding):
    only_ends_are_hidden = (seen[:, 1:] <= seen[:, :-1]).all()
    return torch.where((seen | ~only_ends_are_hidden).unsqueeze(-1), padded, padding)
