"""`tensor.grad`, read and written: a place beside each tensor from outside, changed as an attribute of any object is.

    p.grad            the gradient is an input of the graph, or None by a guard
    p.grad = None     written when the graph has run

A leaf that the program makes inside (`d.requires_grad_()`) has one that nobody sees afterwards.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from dynascope.capture.reasons import TensorAttribute
from dynascope.capture.signals import Break
from dynascope.capture.values import NONE, ConstantValue, DataValue, GradientValue, TensorValue, Value
from dynascope.guards.guard import IdentityIs, NoneIsAnother
from dynascope.guards.source import AttributeSource
from dynascope.guards.tensor_guard import LeafIs

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine

HAS_GRADIENT_TYPES = hasattr(torch.Tensor, "grad_dtype")
"""Newer versions of torch."""


def read(machine: Machine, tensor: TensorValue) -> Value:
    """Of a leaf. Of other tensors torch warns, or has one only where the program has asked it to."""
    known = machine.gradients.get(tensor)
    if known is not None:
        return known.content
    if tensor.object is None:
        if tensor in machine.kept_gradients:
            return machine.kept_gradients[tensor]
        if tensor.example.requires_grad and not is_leaf_made(machine, tensor):
            raise Break(TensorAttribute("grad"))
        return NONE
    check_leaf(machine, tensor)
    return machine.outside.realize(tensor.object.grad, AttributeSource(tensor.source, "grad"))


def is_leaf_made(machine: Machine, tensor: TensorValue) -> bool:
    """Whether the tensor is a leaf of this graph's own, which never leaves it, so that its gradient is no effect."""
    return any(tensor is leaf for leaf in machine.leaves_made)


def check_leaf(machine: Machine, tensor: TensorValue) -> None:
    if not tensor.object.is_leaf:
        raise Break(TensorAttribute("grad"))
    if tensor.object.requires_grad:
        machine.guards.add(tensor.source, LeafIs(True))


def write(machine: Machine, tensor: TensorValue, item: Value) -> None:
    item = machine.realize(item)
    is_none = isinstance(item, ConstantValue) and item.value is None
    is_made = is_leaf_made(machine, tensor)
    if (tensor.object is None and not is_made) or not (is_none or fits(tensor, item)):
        raise Break(TensorAttribute("grad"))
    if not is_made:
        check_leaf(machine, tensor)
        if not is_none:
            check_type(machine, tensor)
    assign(machine, machine.gradients, GradientValue, tensor, item)


def check_type(machine: Machine, tensor: TensorValue) -> None:
    """Where a program wants gradients of another type (`p.grad_dtype = torch.float32`), autograd converts what it adds."""
    if not HAS_GRADIENT_TYPES:
        return
    if tensor.object.grad_dtype is not tensor.object.dtype:
        raise Break(TensorAttribute("grad"))
    machine.guards.add(AttributeSource(tensor.source, "grad_dtype"), IdentityIs(tensor.object.dtype))


def assign(
    machine: Machine, table: dict[TensorValue, Any], kind: type[GradientValue | DataValue], tensor: TensorValue, item: Value
) -> None:
    """From now on the tensor has `item` there, in its place in the table; it is written when the graph has run."""
    known = table.get(tensor)
    if known is None:
        known = kind(tensor)
        machine.journal.set_item(table, tensor, known)
    machine.journal.set(known, "content", item)
    machine.write(known)


def fits(tensor: TensorValue, item: Value) -> bool:
    """Whether torch takes it for a gradient; it words its own refusal."""
    if not isinstance(item, TensorValue) or item is tensor:
        return False
    one, other = tensor.example, item.example
    return (one.shape, one.dtype, tensor.device) == (other.shape, other.dtype, item.device)


def guard_apart(machine: Machine) -> None:
    """A gradient, or a tensor's memory, is written: tensors that are different ones now must be so later."""
    touched = [value for value in machine.outside.by_identity.values() if isinstance(value, TensorValue)]
    if (machine.gradients or machine.assigned or machine.requirements or machine.beside_tensors) and len(touched) > 1:
        machine.guards.add_group(tuple(value.source for value in touched), NoneIsAnother())
