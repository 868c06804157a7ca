"""`torch.profiler.record_function`, and what optimizers and modules do with it: nothing, as long as no profiler runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch.autograd.profiler import record_function

from dynascope.capture.calls.arguments import Arguments, Keywords, argument
from dynascope.capture.calls.registry import meaning
from dynascope.capture.protocols import attribute_changes
from dynascope.capture.reasons import ForeignCall
from dynascope.capture.signals import Break
from dynascope.capture.values import FALSE, NONE, TRUE, ConstantValue, Value
from dynascope.guards.state_calls import CallReturns

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine


ENDS = "run_callbacks_on_exit"
MADE = vars(record_function(""))
"""The attributes of a new one, in this torch."""


@meaning(record_function.__init__)
def make(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    owner = machine.realize(arguments[0])
    held = {"name": argument(arguments, keywords, 1, "name"), "args": argument(arguments, keywords, 2, "args")}
    for name, value in {**{name: ConstantValue(value) for name, value in MADE.items()}, **held}.items():
        attribute_changes.set_plain(machine, owner, name, value)
    return NONE


@meaning(record_function.__enter__)
def enter(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    if torch._C._autograd._profiler_enabled():
        raise Break(ForeignCall("record_function", "a profiler is running"))
    machine.guards.add_state(CallReturns(torch._C._autograd._profiler_enabled, False))
    # Where an error leaves the block after a break, torch's own `__exit__` comes, and has nothing to end.
    attribute_changes.set_plain(machine, machine.realize(arguments[0]), ENDS, FALSE)
    return arguments[0]


@meaning(record_function.__exit__)
def leave(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    attribute_changes.set_plain(machine, machine.realize(arguments[0]), ENDS, TRUE)
    return NONE
