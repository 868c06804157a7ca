"""`x.data = y`: the tensor gets other memory when the graph has run. Until then it is read as that, if it requires no grad.

    p.data = p.data * 0.9 + q * 0.1      an effect; a later `p + 1` of a parameter in the same function is a break
    p.data -= 0.1 * p.grad               a write to the memory that it has

A leaf that the program makes inside (`d.requires_grad_()`) is another one of the graph's from then on. Who differentiates what was computed
from it before is left to Python: of what autograd keeps there it has the new memory by then.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import torch
from torch import fx
from torch.utils._pytree import tree_leaves

from dynascope.capture.histories import storage_of
from dynascope.capture.protocols import gradient_requirements
from dynascope.capture.protocols.gradients import assign
from dynascope.capture.reasons import TensorAttribute
from dynascope.capture.signals import Break
from dynascope.capture.values import DataValue, TensorValue, Value

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine


def write(machine: Machine, tensor: TensorValue, item: Value) -> None:
    item = machine.realize(item)
    if item is tensor:  # what `module.to(device)` does where the module is there already
        return
    if isinstance(item, TensorValue) and tensor not in machine.assigned and is_its_memory(tensor, item):
        return  # `p.data -= step`: written already
    if isinstance(item, TensorValue) and can_be_another(machine, tensor, item):
        become_another(machine, tensor, item)
        return
    if tensor.object is None or not isinstance(item, TensorValue) or not fits(tensor, item) or tensor in machine.requirements:
        raise Break(TensorAttribute("data"))
    if torch.is_inference_mode_enabled() or machine.has_inference_tensors or item.example.is_inference():
        raise Break(TensorAttribute("data"))  # whether and how its writes count from then on hangs on where each was made
    assign(machine, machine.assigned, DataValue, tensor, item)


def can_be_another(machine: Machine, leaf: TensorValue, item: TensorValue) -> bool:
    is_made = any(leaf is each for each in machine.leaves_made) and leaf not in machine.requirements
    is_plain = not item.example.is_inference() and leaf.example.storage_offset() == item.example.storage_offset()
    return is_made and is_plain and fits(leaf, item) and machine.grad_mode and not machine.hooked


def become_another(machine: Machine, leaf: TensorValue, item: TensorValue) -> None:
    left = TensorValue(leaf.node, leaf.example, leaf.device)
    memory = gradient_requirements.detached(machine, item)
    node, example = counting_alone(machine, memory).node, memory.example
    gradient_requirements.tell(machine, node, example, leaf.device)
    machine.journal.append(machine.leaves_left, left)
    machine.journal.set(leaf, "node", node)
    machine.journal.set(leaf, "example", example)


def counting_alone(machine: Machine, detached: TensorValue) -> TensorValue:
    """What `tensor.detach()` gave becomes `tensor.data`: the same memory, and writes to it are counted for it alone. That is the
    memory that the tensor has by now (`now_held`)."""
    node = detached.node
    if not torch.is_inference_mode_enabled() and machine.graph.has_inference:
        raise Break(TensorAttribute("data"))  # of an inference tensor it may be written although the tensor may not
    node.op, node.target, node.args = "call_function", getattr, (*node.args, "data")
    return detached


def fits(tensor: TensorValue, item: TensorValue) -> bool:
    """Whether all that is known of the tensor stays as it was."""
    one, other = tensor.example, item.example
    alike = (one.shape, one.stride(), one.dtype, tensor.device) == (
        other.shape,
        other.stride(),
        other.dtype,
        item.device,
    )
    return alike and one.is_leaf


def is_its_memory(tensor: TensorValue, item: TensorValue) -> bool:
    """Whether it is the tensor's own memory, as the tensor lies there."""
    one, other = tensor.example, item.example
    if (one.dtype, one.shape, one.stride(), tensor.device) != (other.dtype, other.shape, other.stride(), item.device):
        return False
    places = [(each.untyped_storage()._cdata, each.storage_offset(), each.is_conj(), each.is_neg()) for each in (one, other)]
    return places[0] == places[1] and type(one) is type(other)


def check_read(machine: Machine, tensors: list[TensorValue]) -> None:
    """`tensors` are those that an operator is given; what stands for an assigned one is there by a name of its own."""
    for tensor in tensors if machine.assigned else ():
        if (known := machine.assigned.get(tensor)) is not None and known.tensor is tensor:
            raise Break(TensorAttribute("data"))


def as_given(machine: Machine, tensor: TensorValue) -> TensorValue:
    """The program's tensor, where an operator gives back what stands for it."""
    known = machine.assigned.get(tensor)
    return tensor if known is None else known.tensor


def count_writes(machine: Machine, written: list[TensorValue]) -> None:
    """A write is one to both, and counted for the assigned tensor alone. Not of what was assigned by another name: that is a break, and
    so is one that gives what is held a history, which the assigned tensor would have."""
    for held, known in list(machine.assigned.items()):
        if any(tensor.example._base is held.example or counts_with(tensor, held) for tensor in written):
            if known.tensor is held or held.example.requires_grad:
                raise Break(TensorAttribute("data"))
            machine.graph.counts_write(known.tensor.node)


def check_views(machine: Machine, outputs: Iterable[fx.Node]) -> None:
    """What leaves the graph and is a view of an assigned tensor would be one of what it holds: a write to it would not be one to the
    tensor, nor give it a history."""
    held = [each for each, known in machine.assigned.items() if known.tensor is not each]
    if any(node is not each.node and comes_from(node, each.node) for each in held for node in outputs):
        raise Break(TensorAttribute("data"))


def counts_with(tensor: TensorValue, held: TensorValue) -> bool:
    return comes_from(tensor.node, held.node)


def comes_from(node: fx.Node, held: fx.Node) -> bool:
    """Whether it is the tensor, or came from it by `detach()` and views, which count writes together; `.data` counts alone."""
    memory = storage_of(node)
    while node is not held:
        before = node.args[0] if node.args else None
        if node.target is getattr or not isinstance(before, fx.Node) or storage_of(before) != memory:
            return False
        node = before
    return True


def check_differentiated(machine: Machine) -> None:
    """What autograd has kept of such a tensor is its new memory then."""
    if any(is_in_a_history(known.tensor) for known in machine.assigned.values()):
        raise Break(TensorAttribute("data"))


def is_in_a_history(tensor: TensorValue) -> bool:
    """Whether autograd may have kept it for something that was computed of it."""
    results = (node.meta.get("example_value") for node in tensor.node.users)
    return any(each.requires_grad for each in tree_leaves(list(results)) if isinstance(each, torch.Tensor))
