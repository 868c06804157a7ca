"""`sys.exc_info()` where nothing is handled, as `contextlib.ExitStack` asks when it is left: three times None, by a guard."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from dynascope.capture.calls.arguments import Arguments, Keywords
from dynascope.capture.calls.registry import meaning
from dynascope.capture.reasons import ForeignCall
from dynascope.capture.signals import Break
from dynascope.capture.values import NONE, TupleValue, Value
from dynascope.guards.state_calls import CallReturns

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine

NOTHING = (None, None, None)


@meaning(sys.exc_info)
def exc_info(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    """Callers of the region may handle an exception too: then, and in an `except` of the region's own, Python answers."""
    if arguments or keywords or machine.handled is not NONE or sys.exc_info() != NOTHING:
        raise Break(ForeignCall("exc_info"))
    machine.guards.add_state(CallReturns(sys.exc_info, NOTHING))
    return TupleValue((NONE, NONE, NONE))
