"""Calling an `nn.Module`: straight to `forward` where nothing else would run.

`Module.__call__` looks for hooks of the module and of all modules, for a compiled call and for a tracer. When all are
absent, which is guarded, it is `forward`; otherwise its own Python code is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.nn.modules import module as module_code

from dynascope.capture.protocols import attributes
from dynascope.capture.protocols.classes import member
from dynascope.capture.reasons import ForeignCall, RecurrentLayer
from dynascope.capture.signals import Break
from dynascope.capture.values import InstanceValue, Value
from dynascope.guards.guard import LengthIs, ModuleHasNoHooks
from dynascope.guards.source import ConstantSource

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine

HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
GLOBAL_HOOK_NAMES = tuple(f"_global{name}" for name in HOOKS)

GLOBAL_HOOK_SOURCES = tuple(
    ConstantSource(f"torch.nn.modules.module.{name}", getattr(module_code, name)) for name in GLOBAL_HOOK_NAMES
)
RECURRENT = frozenset(layer.forward for layer in (torch.nn.RNN, torch.nn.LSTM, torch.nn.GRU))


def call_module(machine: Machine, module: InstanceValue, arguments: list[Value], keywords: dict[str, Value]) -> Any:
    if any(source.value for source in GLOBAL_HOOK_SOURCES):
        raise Break(ForeignCall(type(module.object).__name__, "hooks for all modules are registered"))
    if has_hooks(module.object):
        method = member(machine, module.cls, "_call_impl", module)
        return machine.call(method, [module, *arguments], keywords)
    machine.guards.add(module.source, ModuleHasNoHooks())
    if module.cls.forward in RECURRENT:
        raise Break(RecurrentLayer(machine.expression()))
    for source in GLOBAL_HOOK_SOURCES:
        machine.guards.add(source, LengthIs(0))
    forward = attributes.get_now(machine, module, "forward")
    return machine.call(forward, arguments, keywords)


def has_hooks(module: torch.nn.Module) -> bool:
    own = module.__dict__
    return any(own.get(name) for name in HOOKS)
