"""What torch's functions answer from a tensor's metadata alone: known now, or numbers of the program where sizes vary.

    metadata_method(machine, torch.Tensor.size, "size", [x, 0], {})
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from dynascope.capture import layouts
from dynascope.capture.calls import late_places
from dynascope.capture.calls.operands import fixed, to_operand
from dynascope.capture.calls.registry import meaning
from dynascope.capture.reasons import ForeignCall, TensorAttribute
from dynascope.capture.signals import Break
from dynascope.capture.sizes import number_in
from dynascope.capture.values import FALSE, NONE, TRUE, ConstantValue, ListValue, TensorValue, TupleValue, Value
from dynascope.guards.tensor_guard import StorageOffsetIs
from dynascope.sizes import kind_of

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine


def metadata_method(machine: Machine, method: Any, name: str, arguments: list[Value], keywords: dict) -> Value:
    from dynascope.capture.calls.pure import compute, value_of

    if name == "storage_offset" and isinstance(first := machine.realize(arguments[0]), TensorValue):
        inside = machine.extents.ask(first, torch.Tensor.storage_offset)
        return machine.sizes.value(inside + offset_of_input(machine, first))
    if machine.extents.vary and (found := from_sizes(machine, name, arguments, keywords)) is not None:
        return found
    examples = [known_operand(machine, argument) for argument in arguments]
    examples_by_name = {key: known_operand(machine, item) for key, item in keywords.items()}
    if machine.extents.vary and arguments and isinstance(first := machine.realize(arguments[0]), TensorValue):
        return asked(machine, method, first, examples[1:], examples_by_name)
    if name == "__len__" and examples[0].dim() == 0:
        raise machine.throw(TypeError, "len() of a 0-d tensor")
    return value_of(compute(machine, method, tuple(examples), examples_by_name).value)


@meaning(torch._has_compatible_shallow_copy_type)
def has_compatible_type(machine: Machine, arguments: list[Value], keywords: dict[str, Value]) -> Value:
    """Whether one tensor may take the other's memory: dense ones may, on whatever device they are."""
    tensors = [machine.realize(value) for value in arguments]
    if len(tensors) != 2 or not all(isinstance(each, TensorValue) and is_dense(each) for each in tensors):
        raise Break(ForeignCall("_has_compatible_shallow_copy_type", "it is about tensors that are not dense"))
    return TRUE


@meaning(torch.Tensor.to_dense)
def to_dense(machine: Machine, arguments: list[Value], keywords: dict[str, Value]) -> Any:
    """Of a tensor that is dense already itself."""
    tensor = machine.realize(arguments[0])
    dtype = keywords.get("dtype", arguments[1] if len(arguments) > 1 else NONE)
    if not isinstance(tensor, TensorValue) or not is_dense(tensor) or len(arguments) > 2 or not keywords.keys() <= {"dtype", "masked_grad"}:
        raise Break(TensorAttribute("to_dense"))
    return tensor if machine.object_of(dtype) is None else machine.call(ConstantValue(torch.Tensor.to), [tensor, dtype])


def is_dense(tensor: TensorValue) -> bool:
    return tensor.example.layout is torch.strided and not tensor.example.is_quantized and tensor.device.type in ("cpu", "cuda")


def name_of_type(tensor: TensorValue) -> str:
    """`x.type()`: "torch.FloatTensor", "torch.cuda.HalfTensor"."""
    plain = torch.empty(0, dtype=tensor.example.dtype, device="cpu").type()
    return plain if tensor.device.type == "cpu" else plain.replace("torch.", f"torch.{tensor.device.type}.", 1)


def known_operand(machine: Machine, value: Value) -> Any:
    """What the method is asked with: the answer is of these numbers alone, so they are fixed."""
    return to_operand(machine, fixed(machine, value))[1]


def from_sizes(machine: Machine, name: str, arguments: list[Value], keywords: dict) -> Value | None:
    """What hangs on several sizes at once, that vary each by itself; None where torch itself has the answer, or the error."""
    if keywords:
        return None
    tensors = [value for value in map(machine.realize, arguments) if isinstance(value, TensorValue)]
    if name == "is_same_size" and len(tensors) == len(arguments) == 2:
        return same_sizes(machine, *tensors)
    if name == "broadcast_shapes":
        shapes = [shape_of(machine, argument) for argument in arguments]
        found = None if None in shapes else broadcast(shapes)
        return None if found is None else TupleValue(tuple(map(machine.sizes.value, found)), torch.Size)
    return None


def same_sizes(machine: Machine, one: TensorValue, other: TensorValue) -> Value:
    sizes = machine.extents.sizes(one), machine.extents.sizes(other)
    return TRUE if len(sizes[0]) == len(sizes[1]) and all(map(operator.eq, *sizes)) else FALSE


def shape_of(machine: Machine, value: Value) -> tuple[Any, ...] | None:
    """A shape as it is given to torch, a number or several: ints, and sizes that vary."""
    value = machine.realize(value)
    if isinstance(value, ConstantValue) and isinstance(value.value, (tuple, list)):
        shape = tuple(value.value)
    else:
        items = value.items if isinstance(value, (TupleValue, ListValue)) else [value]
        shape = tuple(number_in(machine.realize(item)) for item in items)
    return shape if all(kind_of(size) is int for size in shape) else None


def broadcast(shapes: Sequence[tuple[Any, ...]]) -> tuple[Any, ...] | None:
    """Of each size that is not 1 there is one only, which is the result's; None where they do not fit."""
    found: list[Any] = []
    for at in range(1, max(map(len, shapes), default=0) + 1):
        wide = [size for shape in shapes if len(shape) >= at and (size := shape[-at]) != 1]
        if any(size < 0 for size in wide) or any(size != wide[0] for size in wide[1:]):
            return None
        found.append(wide[0] if wide else 1)
    return tuple(reversed(found))


def asked(machine: Machine, method: Any, tensor: TensorValue, others: list[Any], named: dict[str, Any]) -> Value:
    """Metadata of a tensor in a program whose numbers vary."""
    try:
        found = machine.extents.ask(tensor, lambda example: method(example, *others, **named))
    except Exception as error:
        raise machine.throw(type(error), *error.args) from None
    return number_values(machine, found, method(tensor.example, *others, **named))


def number_values(machine: Machine, found: Any, now: Any) -> Value:
    """Sizes and numbers as the program sees them: a torch.Size where torch gives one."""
    late_places.make_sure(machine, found)
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
