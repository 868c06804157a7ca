"""Torch's thread-wide state: grad mode is followed while capturing, as nodes of the graph and an effect at the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from dynascope.capture.calls.registry import meaning
from dynascope.capture.metadata import with_index
from dynascope.capture.protocols.iteration import elements
from dynascope.capture.reasons import ForeignCall, ForeignValue
from dynascope.capture.signals import Break
from dynascope.capture.values import (
    FALSE,
    NONE,
    TRUE,
    ConstantValue,
    DictValue,
    ListValue,
    TensorValue,
    TupleValue,
    Value,
    boolean,
)

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine


def change(machine: Machine, function: Callable[..., Any], arguments: tuple, undo: Callable[[], Any]) -> Any:
    """Call `function`, which changes torch's state, here and in the graph; `undo` runs when the step is undone."""
    result = function(*arguments)
    machine.journal.record(undo)
    machine.graph.set_state(function, arguments)
    return result


@meaning(torch._C._set_grad_enabled)
def set_grad_enabled(machine: Machine, arguments: list[Value], keywords: dict[str, Value]) -> Value:
    """Set for real, so that the metadata of what follows is right; put back when the step is undone.

    A graph called with gradients off computes none, whatever it switches on inside: `Operation` breaks where there would be some.
    """
    wanted = bool(machine.object_of(arguments[0]))
    before = torch.is_grad_enabled()
    if machine.backward_passes and not before:
        set_in_backward_pass(machine, wanted)
    if wanted != before:
        change(machine, torch._C._set_grad_enabled, (wanted,), lambda: torch._C._set_grad_enabled(before))
    return NONE


def set_in_backward_pass(machine: Machine, wanted: bool) -> None:
    """A backward pass runs with gradients off, but where it is differentiated: so what is off and stays off may be a change."""
    unrecorded = machine.backward_passes[-1].unrecorded
    codes = [frame.code for frame in machine.frames[-3:]]  # the class's method, `construct` and `set_grad_enabled.__init__`
    if torch.no_grad.__enter__.__code__ in codes:
        unrecorded.enter()
    elif torch.no_grad.__exit__.__code__ in codes:
        unrecorded.leave()
    elif not wanted or unrecorded.depth:
        raise Break(ForeignCall("set_grad_enabled", "whether gradients were off depends on whether this backward pass is differentiated"))


@meaning(torch.is_grad_enabled)
def is_grad_enabled(machine: Machine, arguments: list[Value], keywords: dict[str, Value]) -> Value:
    if machine.backward_passes and machine.frames[-1].globals is not vars(torch.autograd.grad_mode):
        raise Break(ForeignCall("is_grad_enabled", "it depends on whether this backward pass is differentiated"))
    return boolean(torch.is_grad_enabled())


TOLD_AS_UNCOMPILED = frozenset({"torch.nn.modules.transformer"})
TOLD_AS_COMPILED = frozenset({"torch.distributed._functional_collectives"})
"""It asks whether its results are to be plain tensors, which is no other way of the program's."""


@meaning(torch.compiler.is_compiling, torch.compiler.is_dynamo_compiling)
def is_compiling(machine: Machine, arguments: list[Value], keywords: dict[str, Value]) -> Value:
    """True, as under torch.compile: a program that asks wants another way when it is compiled.

    torch's encoder leaves out nested tensors then, which zero the rows that a mask hides: it is told what plain PyTorch says. So is a
    program that fails on that other way (`Session.ended_by`).
    """
    module = machine.frames[-1].globals.get("__name__")
    if module in TOLD_AS_COMPILED:
        return TRUE
    says = machine.options.says_it_compiles and module not in TOLD_AS_UNCOMPILED
    machine.said_it_compiles |= says
    return boolean(says)


@meaning(torch.jit.is_scripting, torch.jit.is_tracing, torch.compiler.is_exporting)
def never(machine: Machine, arguments: list[Value], keywords: dict[str, Value]) -> Value:
    return FALSE


@meaning(torch.is_tensor)
def is_tensor(machine: Machine, arguments: list[Value], keywords: dict[str, Value]) -> Value:
    return boolean(issubclass(machine.realize(arguments[0]).python_type, torch.Tensor))


@meaning(
    torch._C._are_functorch_transforms_active,
    torch._C._get_tracing_state,
)
def nothing_special(machine: Machine, arguments: list[Value], keywords: dict[str, Value]) -> Value:
    """Transforms and tracers are refused before they could matter."""
    return NONE if not arguments and not keywords else FALSE


@meaning(torch._C._log_api_usage_once)
def log_api_usage_once(machine: Machine, arguments: list[Value], keywords: dict[str, Value]) -> Value:
    """Says no more than that torch was used, once in a process, to who has asked torch's makers for it."""
    return NONE


@meaning(torch._C._group_tensors_by_device_and_dtype)
def group_tensors(machine: Machine, arguments: list[Value], keywords: dict[str, Value]) -> Value:
    """Lists of tensors side by side, parted by the device and type of those in the first."""
    lists = [elements(machine, each) for each in elements(machine, arguments[0])]
    with_indices = len(arguments) > 1 and bool(machine.known(arguments[1]).value)
    groups: dict[Any, tuple[Value, list[int]]] = {}
    for at, value in enumerate(lists[0]):
        tensor = machine.realize(value)
        if not isinstance(tensor, TensorValue):
            raise Break(ForeignCall("_group_tensors_by_device_and_dtype", "it is given something other than tensors"))
        key = (tensor.device, tensor.example.dtype)
        groups.setdefault(key, (TupleValue(tuple(map(ConstantValue, key))), []))[1].append(at)
    items = {}
    for key, (shown, places) in groups.items():
        parts = ListValue([ListValue([each[at] for at in places] if each else []) for each in lists])
        indices = ListValue([ConstantValue(at) for at in places] if with_indices else [])
        items[key] = (shown, TupleValue((parts, indices)))
    return DictValue(items)


@meaning(torch.get_default_device)
def get_default_device(machine: Machine, arguments: list[Value], keywords: dict[str, Value]) -> Value:
    return ConstantValue(machine.default_device())


@meaning(torch.cuda.device_count)
def device_count(machine: Machine, arguments: list[Value], keywords: dict[str, Value]) -> Value:
    """Where a build for GPUs asks the driver, it does so once in a process."""
    return ConstantValue(torch.cuda.device_count(*arguments, **keywords))


@meaning(torch.device.__enter__)
def enter_device(machine: Machine, arguments: list[Value], keywords: dict[str, Value]) -> Value:
    """From here on the graph names it wherever a tensor is made. A graph that would end inside is captured again, up to here: the
    program's own mode has to be on behind it."""
    if not machine.options.follows_devices or machine.overriding.modes:
        raise Break(ForeignValue("device", machine.expression()))
    device = machine.realize(arguments[0])
    machine.journal.set(machine, "devices", (*machine.devices, with_index(device.value)))
    return device


@meaning(torch.device.__exit__)
def leave_device(machine: Machine, arguments: list[Value], keywords: dict[str, Value]) -> Value:
    if not machine.devices or machine.devices[-1] != with_index(machine.realize(arguments[0]).value):
        raise Break(ForeignValue("device", machine.expression()))
    machine.journal.set(machine, "devices", machine.devices[:-1])
    return NONE
