"""What torch's functions answer from a tensor's metadata alone: known now, or numbers of the program where sizes vary.

    metadata_method(machine, torch.Tensor.size, "size", [x, 0], {})
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from dynascope.capture import layouts
from dynascope.capture.calls.operands import to_operand
from dynascope.capture.reasons import TensorAttribute
from dynascope.capture.signals import Break
from dynascope.capture.values import TensorValue, TupleValue, Value
from dynascope.guards.tensor_guard import StorageOffsetIs

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine


def metadata_method(machine: Machine, method: Any, name: str, arguments: list[Value], keywords: dict) -> Value:
    from dynascope.capture.calls.pure import compute, value_of

    if name == "storage_offset" and isinstance(first := machine.realize(arguments[0]), TensorValue):
        inside = machine.extents.ask(first, torch.Tensor.storage_offset)
        return machine.sizes.value(inside + offset_of_input(machine, first))
    if machine.extents.vary and isinstance(first := machine.realize(arguments[0]), TensorValue):
        return asked(machine, method, first, arguments[1:], keywords)
    examples = [to_operand(machine, argument)[1] for argument in arguments]
    examples_by_name = {key: to_operand(machine, item)[1] for key, item in keywords.items()}
    if name == "__len__" and examples[0].dim() == 0:
        raise machine.throw(TypeError, "len() of a 0-d tensor")
    return value_of(compute(machine, method, tuple(examples), examples_by_name).value)


def name_of_type(tensor: TensorValue) -> str:
    """`x.type()`: "torch.FloatTensor", "torch.cuda.HalfTensor"."""
    plain = torch.empty(0, dtype=tensor.example.dtype, device="cpu").type()
    return plain if tensor.device.type == "cpu" else plain.replace("torch.", f"torch.{tensor.device.type}.", 1)


def asked(machine: Machine, method: Any, tensor: TensorValue, arguments: list[Value], keywords: dict) -> Value:
    """Metadata of a tensor in a program whose numbers vary."""
    others = [to_operand(machine, argument)[1] for argument in arguments]
    named = {key: to_operand(machine, item)[1] for key, item in keywords.items()}
    try:
        found = machine.extents.ask(tensor, lambda example: method(example, *others, **named))
    except Exception as error:
        raise machine.throw(type(error), *error.args) from None
    return number_values(machine, found, method(tensor.example, *others, **named))


def number_values(machine: Machine, found: Any, now: Any) -> Value:
    """Sizes and numbers as the program sees them: a torch.Size where torch gives one."""
    if not isinstance(now, tuple):
        return machine.sizes.value(found)
    return TupleValue(tuple(machine.sizes.value(item) for item in found), type(now))


def offset_of_input(machine: Machine, tensor: TensorValue) -> int:
    """Where the input that the tensor is a view of begins in its storage, from now on assumed. Meta tensors begin at 0."""
    storage = tensor.example.untyped_storage()._cdata
    for value in machine.outside.by_identity.values():
        if isinstance(value, TensorValue) and value.example.untyped_storage()._cdata == storage:
            offset = value.object.storage_offset()
            machine.guards.add(value.source, StorageOffsetIs(offset))
            return offset
    return 0


def refuse_layouts(machine: Machine, name: str, arguments: list[Value]) -> None:
    """Layouts that meta kernels do not know, and strides of dimensions of one element or none, which say nothing: kernels and meta
    kernels give results other ones."""
    tensor = machine.realize(arguments[0])
    if not isinstance(tensor, TensorValue) or tensor.object is not None:
        return
    says_nothing = name != "is_contiguous" and any(size < 2 for size in tensor.example.shape) and not layouts.say_all(tensor)
    if says_nothing or not layouts.are_known(tensor):
        raise Break(TensorAttribute(name))
