"""`with torch.autocast(...)` inside a captured function: its methods are Python, which ends in the functions here.

The state is set for real, so that what follows has the types it will have, and put back when the step is undone. The nodes
do the same where a graph runs operator by operator; compiled graphs hold the conversions themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from dynascope.capture.calls.arguments import Arguments, Keywords
from dynascope.capture.calls.registry import meaning
from dynascope.capture.calls.torch_state import change
from dynascope.capture.expressions import callee
from dynascope.capture.reasons import ForeignCall
from dynascope.capture.signals import Break
from dynascope.capture.values import NONE, ConstantValue, InstanceValue, NotConstant, Value, constant_of
from dynascope.meta_kernels.torch_warnings import noted

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine


OLD_NAMES = {
    "cpu": ("is_autocast_cpu_enabled", "get_autocast_cpu_dtype"),
    "cuda": ("is_autocast_enabled", "get_autocast_gpu_dtype"),
}
"""What says of one device what `is_autocast_enabled(device)` and `get_autocast_dtype(device)` say of each."""
QUESTIONS = {
    device: [vars(torch._C)[name] for name in names if hasattr(torch._C, name)] for device, names in OLD_NAMES.items()
}


def constants(machine: Machine, values: Arguments) -> list[Any]:
    known = [constant_of(machine.known(value)) for value in values]
    if any(type(value) is NotConstant for value in known):
        raise Break(ForeignCall(callee(machine.expression()), "it sets autocast to something known only when it runs"))
    return known


@meaning(torch.autocast)
def make(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    """The object, which is only read until it is entered; its checks are made here, once."""
    known = constants(machine, [*arguments, *keywords.values()])
    try:
        with noted() as given:
            real = torch.autocast(*known[: len(arguments)], **dict(zip(keywords, known[len(arguments) :], strict=True)))
    except Exception as error:
        raise Break(ForeignCall(callee(machine.expression()), f"it says: {error}")) from None
    if given:
        raise Break(ForeignCall(callee(machine.expression()), f"it says: {given[0].message}"))
    value = InstanceValue(torch.autocast)
    value.attributes = {name: ConstantValue(item) for name, item in vars(real).items()}
    return value


def follow(set_state: Callable[[str, Any], None], state: Callable[[str], Any]) -> None:
    @meaning(set_state)
    def set_followed(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
        device, wanted = by_device(machine, arguments, keywords)
        before = state(device)
        machine.guards.settle_state(QUESTIONS[device])
        change(machine, set_state, (device, wanted), lambda: set_state(device, before))
        return NONE


follow(torch.set_autocast_enabled, torch.is_autocast_enabled)
follow(torch.set_autocast_dtype, torch.get_autocast_dtype)


def by_device(machine: Machine, arguments: Arguments, keywords: Keywords) -> tuple[str, Any]:
    known = constants(machine, arguments)
    if keywords or len(known) != 2 or known[0] not in ("cpu", "cuda"):
        raise Break(ForeignCall(callee(machine.expression()), "it sets autocast for a device that is not followed"))
    return known[0], known[1]


@meaning(torch.set_autocast_cache_enabled)
def set_cache_enabled(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    before = torch.is_autocast_cache_enabled()
    wanted = tuple(constants(machine, arguments))
    machine.guards.settle_state([torch.is_autocast_cache_enabled])
    change(machine, torch.set_autocast_cache_enabled, wanted, lambda: torch.set_autocast_cache_enabled(before))
    return NONE


@meaning(torch.autocast_increment_nesting)
def increment_nesting(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    return ConstantValue(change(machine, torch.autocast_increment_nesting, (), torch.autocast_decrement_nesting))


@meaning(torch.autocast_decrement_nesting)
def decrement_nesting(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    return ConstantValue(change(machine, torch.autocast_decrement_nesting, (), torch.autocast_increment_nesting))


@meaning(torch.clear_autocast_cache)
def clear_cache(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    machine.graph.set_state(torch.clear_autocast_cache, ())
    return NONE
