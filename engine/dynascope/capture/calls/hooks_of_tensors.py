"""Hooks on tensors and gradients that are kept: done to the result itself when the graph has run, in the program's order.

    h = encoder(x); h.register_hook(scale); return head(h)      h is a result, and what is computed from it another part of the graph

So autograd goes through `h`, with the hook, as in eager (`dependent_results.py`). A tensor that is written afterwards has another history
than the one that eager's hook is on, and what is differentiated inside would run before the hook is there: there the graph ends first.
A gradient that is kept is known, though: `loss.backward()` inside differentiates by that tensor too (`calls/differentiation.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.hooks import RemovableHandle

from dynascope.autograd_functions import register_where_reached
from dynascope.capture.calls.arguments import Arguments, Keywords, argument, is_none
from dynascope.capture.calls.registry import meaning
from dynascope.capture.calls.tensors import apply_method
from dynascope.capture.histories import function_of, storage_of
from dynascope.capture.parts import needs
from dynascope.capture.protocols.classes import MISSING, lookup
from dynascope.capture.reasons import TensorAttribute, UnrebuildableValue
from dynascope.capture.signals import Break
from dynascope.capture.values import NONE, ConstantValue, TensorValue, Value
from dynascope.guards.tensor_guard import LeafIs

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine
    from dynascope.capture.plan import Plan

WRITES = "Register the hook after the last write to the tensor, or on a clone of it."


class HandleValue(Value):
    """What a registration gives: there is none before the graph has run, so a program that keeps it ends the graph before."""

    __slots__ = ()
    source = None
    python_type = RemovableHandle


@meaning(torch.Tensor.register_hook)
def register_hook(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    return hooked(machine, torch.Tensor.register_hook, arguments, keywords)


def is_called_always(tensor: TensorValue) -> bool:
    """Of an operator with several results autograd calls the hooks on each in every pass."""
    function = function_of(tensor.example)
    return function is not None and len(function._input_metadata) > 1


@meaning(torch.Tensor.register_post_accumulate_grad_hook)
def register_post_accumulate_grad_hook(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    return hooked(machine, torch.Tensor.register_post_accumulate_grad_hook, arguments, keywords)


@meaning(torch.Tensor.retain_grad)
def retain_grad(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    tensor = differentiable(machine, arguments[0], "retain_grad")
    if tensor.example.is_leaf or tensor in machine.kept_gradients:
        return NONE
    do_afterwards(machine, torch.Tensor.retain_grad, tensor)
    if tensor.object is None:
        machine.journal.set_item(machine.kept_gradients, tensor, NONE)
    return NONE


def keep_gradient(machine: Machine, tensor: TensorValue, gradient: Value) -> None:
    """As autograd's hook does it: the first one is copied, and what comes later gives another tensor (torch/csrc/autograd/variable.cpp)."""
    before = machine.kept_gradients[tensor]
    if is_none(before):
        contiguous = {"memory_format": ConstantValue(torch.contiguous_format)}
        kept = apply_method(machine, torch.Tensor.clone, [gradient], contiguous)
    else:
        kept = apply_method(machine, torch.Tensor.add, [before, gradient], {})
    machine.journal.set_item(machine.kept_gradients, tensor, machine.realize(kept))


def give_gradient(tensor: torch.Tensor, gradient: torch.Tensor) -> None:
    """What passes inside have left there."""
    tensor.grad = gradient


def calls_seen(machine: Machine, plan: Plan) -> tuple[tuple[Any, tuple], ...]:
    """What is said when the graph has run, without the gradients that are kept of tensors that nobody has then."""
    calls = plan.effects.said
    others = tuple(call for call in calls if not keeps(machine, *call))
    roots = replace(plan, effects=replace(plan.effects, said=others)).roots()
    held = set(map(storage_of, needs(roots)))
    kept: list[tuple[Any, tuple]] = []
    for function, values in calls:
        if not keeps(machine, function, values):
            kept.append((function, values))
        elif storage_of(values[0].node) in held:
            gradient = machine.kept_gradients[values[0]]
            kept += [(function, values), *([] if is_none(gradient) else [(give_gradient, (values[0], gradient))])]
    return tuple(kept)


def keeps(machine: Machine, function: Any, arguments: tuple) -> bool:
    return function is torch.Tensor.retain_grad and arguments[0] in machine.kept_gradients


def hooked(machine: Machine, register: Callable[..., Any], arguments: Arguments, keywords: Keywords) -> Value:
    name = register.__name__
    tensor, hook = differentiable(machine, arguments[0], name), argument(arguments, keywords, 1, "hook")
    if len(arguments) + len(keywords) != 2 or lookup(machine.realize(hook).python_type, "__call__") is MISSING:
        raise Break(TensorAttribute(name))
    if name != "register_hook" and not tensor.example.is_leaf:
        raise Break(TensorAttribute(name))
    if name == "register_hook" and not is_called_always(tensor):
        register = register_where_reached
    do_afterwards(machine, register, tensor, hook)
    return HandleValue()


def differentiable(machine: Machine, value: Value, name: str) -> TensorValue:
    """The tensor, where what eager does to it is known: it leads gradients, and shares its memory with no other that does."""
    tensor = machine.realize(value)
    if not isinstance(tensor, TensorValue) or not tensor.example.requires_grad or tensor.instance is not None:
        raise Break(TensorAttribute(name))
    if tensor.object is None and (tensor.example._is_view() or tensor.example.is_leaf):
        raise Break(TensorAttribute(name))
    if tensor.object is not None:
        machine.guards.add(tensor.source, LeafIs(tensor.object.is_leaf))
    return tensor


def do_afterwards(machine: Machine, function: Callable[..., Any], tensor: TensorValue, *rest: Value) -> None:
    machine.journal.append(machine.hooked, (tensor, tensor.example._version))
    machine.journal.append(machine.said, (function, (tensor, *rest)))


def check_unwritten(machine: Machine) -> None:
    """At the end of a capture: what has a hook still has the history that it had then."""
    for tensor, version in machine.hooked:
        if tensor.example._version != version:
            raise Break(UnrebuildableValue("a hook on a tensor that is written afterwards", WRITES))
