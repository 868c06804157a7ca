"""`time.time()`, `time.perf_counter()`: readings of a clock, between the kernels before and those behind.

    start = time.time(); y = f(x); seconds.append(time.time() - start)      time: u0, ..., time: u1; effect: u1 - u0

Such a number is one that only the run of the graph knows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from dynascope.capture.calls import late_numbers
from dynascope.capture.calls.arguments import Arguments, Keywords
from dynascope.capture.clocks import CLOCKS, Reading
from dynascope.capture.values import Value

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine


def read(machine: Machine, function: Any, arguments: Arguments, keywords: Keywords) -> Value | None:
    """None where it is no clock, or no graph may read it."""
    if not any(function is clock for clock in CLOCKS) or arguments or keywords:
        return None
    if not machine.options.draws or not late_numbers.are_served(machine):
        return None
    node = machine.graph.call("call_function", Reading(function), (), {})
    machine.graph.keep(node)
    now = function()
    kind = type(now)
    return late_numbers.number_at(machine, node, kind, torch.float64 if kind is float else torch.int64, 0 if kind is float else now)
