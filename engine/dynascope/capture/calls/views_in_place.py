"""Methods that make their tensor another view of itself: `y.t_()`, `y.unsqueeze_(0)`, and one that takes its history away: `y.detach_()`.

Of a tensor made inside, the value becomes what the method without the underscore returns. Another view counts as a write. Where
autograd looks, which may have to refuse that or what comes after it, it is left to Python.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import torch

from dynascope.capture.calls.arguments import Arguments, Keywords
from dynascope.capture.calls.registry import meaning
from dynascope.capture.calls.tensors import apply_method
from dynascope.capture.histories import functions_of, storage_of
from dynascope.capture.reasons import TensorAttribute
from dynascope.capture.signals import Break
from dynascope.capture.values import TensorValue, Value

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine

NAMES = ("squeeze_", "swapaxes_", "swapdims_", "t_", "transpose_", "unsqueeze_")
"""Those whose schema says so (`torch.Tag.inplace_view`, with a view as the other form). A test asks the schemas: doing it here
would make each start slower."""


def is_saved(machine: Machine, example: torch.Tensor) -> bool:
    """Whether a backward pass reads the tensor's memory."""
    memory = example.untyped_storage()._cdata
    try:
        known = [node.meta.get("example_value") for node in machine.graph.graph.nodes]
        ends = [each for each in known if isinstance(each, torch.Tensor) and each.requires_grad]
        return any(saves(function, memory) for function in functions_of(ends))
    except RuntimeError:  # autograd refuses to say how some view came about
        return True


def saves(function: Any, memory: int | None) -> bool:
    """Whether one of autograd's functions keeps a tensor in this memory; also where it does not say, because what it kept was
    changed since, or freed."""
    try:
        saved = [getattr(function, key) for key in dir(function) if key.startswith("_saved_")]
    except RuntimeError:
        return True
    return any(isinstance(each, torch.Tensor) and each.untyped_storage()._cdata == memory for each in saved)


def is_view_of_outside(machine: Machine, example: torch.Tensor) -> bool:
    """If what it is a view of is to require grad later, autograd makes the history of a view that was written anew."""
    if not (example.is_floating_point() and example._is_view()):
        return False
    outside = (value.example for value in machine.outside.by_identity.values() if isinstance(value, TensorValue))
    return any(example._base is base for each in outside for base in (each, each._base))


def is_placed(machine: Machine, tensor: TensorValue) -> bool:
    """Whether it will be a tensor's gradient or data when the graph has run, which torch takes in the shape of that tensor alone."""
    return any(known.content is tensor for table in (machine.gradients, machine.assigned) for known in table.values())


def is_checkpointed(machine: Machine, example: torch.Tensor) -> bool:
    """Whether it shares memory with an operand of a checkpoint, which eager keeps for the backward pass."""
    memory = example.untyped_storage()._cdata
    return any(storage_of(node) == memory for *_, operands in machine.checkpoints for node in operands)


def left_to_python(machine: Machine, example: torch.Tensor, name: str) -> Break:
    machine.changes_operands |= is_checkpointed(machine, example)
    return Break(TensorAttribute(name))


def view_in_place(name: str, machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    """Of a tensor made inside: from now on its value is the view. Nobody else sees the difference, for it keeps its memory."""
    tensor = machine.realize(arguments[0])
    if not isinstance(tensor, TensorValue):
        raise machine.throw(TypeError, f"{name} requires a Tensor, not {tensor.python_type.__name__}")
    example = tensor.example
    is_seen = tensor.object is not None or is_placed(machine, tensor) or is_checkpointed(machine, example)
    if is_seen or example.requires_grad or is_saved(machine, example) or is_view_of_outside(machine, example):
        raise left_to_python(machine, example, name)
    method = getattr(torch.Tensor, name.removesuffix("_"))
    viewed = apply_method(machine, method, arguments, keywords)
    machine.journal.set(tensor, "node", viewed.node)
    machine.journal.set(tensor, "example", viewed.example)
    machine.graph.counts_write(viewed.node)
    viewed.node.meta["views_in_place"] = True
    machine.note_tensor_write(tensor)
    return tensor


@meaning(torch.Tensor.detach_)
def detach_in_place(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    """Of a view torch refuses it. What a backward pass keeps has a history there that this takes away: an error of torch's own."""
    tensor = machine.realize(arguments[0])
    if not isinstance(tensor, TensorValue) or len(arguments) != 1 or keywords or tensor.object is not None:
        raise Break(TensorAttribute("detach_"))
    example = tensor.example
    if example._is_view() or example.is_inference() or tensor.instance is not None:
        raise Break(TensorAttribute("detach_"))
    if not example.requires_grad:
        return tensor
    is_followed = machine.hooked or tensor in machine.leaves_made or tensor in machine.requirements or is_placed(machine, tensor)
    if is_followed or is_checkpointed(machine, example) or is_saved(machine, example) or has_views(machine, example):
        raise left_to_python(machine, example, "detach_")
    detached = apply_method(machine, torch.Tensor.detach, [tensor], {})
    machine.journal.set(tensor, "node", detached.node)
    machine.journal.set(tensor, "example", detached.example)
    return tensor


def has_views(machine: Machine, example: torch.Tensor) -> bool:
    """A view goes on with its history, and writes it into what it is a view of."""
    known = (node.meta.get("example_value") for node in machine.graph.graph.nodes)
    return any(isinstance(each, torch.Tensor) and each._is_view() and each._base is example for each in known)


for name in NAMES:
    meaning(getattr(torch.Tensor, name))(functools.partial(view_in_place, name))
