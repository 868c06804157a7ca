"""`sys.exc_info()` and `sys.exception()` where nothing is handled, of which `contextlib.ExitStack` asks one when it is left: None, by a
guard."""

from __future__ import annotations

import sys
import types
from typing import TYPE_CHECKING

from dynascope.capture.calls.arguments import Arguments, Keywords
from dynascope.capture.calls.pure import value_of
from dynascope.capture.calls.registry import meaning
from dynascope.capture.reasons import ForeignCall
from dynascope.capture.signals import Break
from dynascope.capture.values import NONE, Value
from dynascope.guards.state_calls import CallReturns

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine


def _answers_that_nothing_is_handled(question: types.BuiltinFunctionType) -> None:
    @meaning(question)
    def answer(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
        """Callers of the region may handle an exception too: then, and in an `except` of the region's own, Python answers."""
        if arguments or keywords or machine.handled_now is not NONE or sys.exception() is not None:
            raise Break(ForeignCall(question.__name__))
        machine.guards.add_state(CallReturns(question, question()))
        return value_of(question())


for each in (sys.exc_info, sys.exception):
    _answers_that_nothing_is_handled(each)
