"""Calling an `nn.Module`: straight to `forward` where nothing else would run.

`Module.__call__` looks for hooks of the module and of all modules, for a compiled call and for a tracer. When all are
absent, which is guarded, and the call is torch's own, it is `forward`; otherwise its Python code is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.nn.modules import module as module_code

from dynascope.capture.calls import parallel_layers
from dynascope.capture.expressions import callee
from dynascope.capture.places import averages_gradients
from dynascope.capture.protocols import attributes
from dynascope.capture.protocols.classes import has_python_method, lookup
from dynascope.capture.reasons import AveragedModule, LayerOfSubclass
from dynascope.capture.signals import Break
from dynascope.capture.values import DictValue, InstanceValue, Value, own_dictionary
from dynascope.capture.world import note
from dynascope.guards.guard import LengthIs, ModuleHasNoHooks
from dynascope.guards.source import ConstantSource

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine

HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
GLOBAL_HOOK_NAMES = tuple(f"_global{name}" for name in HOOKS)

GLOBAL_HOOK_SOURCES = tuple(
    ConstantSource(f"torch.nn.modules.module.{name}", getattr(module_code, name)) for name in GLOBAL_HOOK_NAMES
)
# Torch's own, whatever a program has put in their place: a program may have done so before this module was imported.
OWN_CALLS = tuple(
    function
    for function in (torch.nn.Module.__call__, torch.nn.Module._call_impl)
    if getattr(function, "__code__", None) is not None and function.__code__.co_filename == module_code.__file__
)


def has_own_call(machine: Machine, module: InstanceValue) -> bool:
    """Whether calling the module does what torch's `Module` does."""
    if any(lookup(module.cls, name) not in OWN_CALLS for name in ("__call__", "_call_impl")):
        return False
    if has_python_method(module.cls, "__getattribute__"):  # which is asked for all that torch's call reads
        return False
    own = "_call_impl" in (own_dictionary(module) or {}) or "_call_impl" in module.attributes
    if not own:
        attributes.guard_not_shadowed(machine, module, "_call_impl")
    return not own


def call_module(machine: Machine, module: InstanceValue, arguments: list[Value], keywords: dict[str, Value]) -> Any:
    has_global = any(source.value or is_changed(machine, source.value) for source in GLOBAL_HOOK_SOURCES)
    if averages_gradients(module.cls):  # its call is left to Python as a whole
        raise Break(AveragedModule(callee(machine.expression()) or module.cls.__name__))
    if is_of_subclasses(module):
        if (found := parallel_layers.call(machine, module, arguments, keywords)) is not None:
            guard_no_global_hooks(machine)
            return found
        if module.cls in parallel_layers.LAYERS:
            leave_to_python(machine, module)
    if has_global or has_hooks(machine, module):
        return machine.call(attributes.get_now(machine, module, "_call_impl"), arguments, keywords)
    machine.guards.add(module.source, ModuleHasNoHooks())
    guard_no_global_hooks(machine)
    forward = attributes.get_now(machine, module, "forward")
    return machine.call(forward, arguments, keywords)


def guard_no_global_hooks(machine: Machine) -> None:
    for name, source in zip(GLOBAL_HOOK_NAMES, GLOBAL_HOOK_SOURCES, strict=True):
        note(vars(module_code), name, source.value)
        machine.guards.add(source, LengthIs(0))


def is_of_subclasses(module: InstanceValue) -> bool:
    """Whether its own weights are tensors with behaviour of their own (DTensor)."""
    weights = (own_dictionary(module) or {}).get("_parameters")
    return isinstance(weights, dict) and any(map(has_behaviour, weights.values()))


def has_behaviour(weight: Any) -> bool:
    return isinstance(weight, torch.Tensor) and type(weight).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__


def leave_to_python(machine: Machine, module: InstanceValue) -> None:
    """A layer whose weights have behaviour of their own (DTensor) is one break at its call, whatever is done before and after it: nothing
    is known of its hooks then, which hand such tensors on."""
    own = own_dictionary(module) or {}
    weights = own.get("_parameters")
    if own.get("_modules") or not isinstance(weights, dict):
        return
    for name, weight in weights.items():
        if has_behaviour(weight):
            raise Break(LayerOfSubclass(type(weight).__name__, machine.expression(), name))


def has_hooks(machine: Machine, module: InstanceValue) -> bool:
    if module.object is None:
        tables = [machine.realize(module.attributes[name]) for name in HOOKS if name in module.attributes]
        return any(not isinstance(table, DictValue) or table.items for table in tables)
    own = own_dictionary(module) or {}
    return any(own.get(name) or name in module.attributes or is_changed(machine, own.get(name)) for name in HOOKS)


def is_changed(machine: Machine, table: Any) -> bool:
    """Whether the program has put a hook there or taken one away."""
    known = machine.outside.by_identity.get(id(table))
    return known is not None and getattr(known.contents if isinstance(known, InstanceValue) else known, "changed", False)
