"""Loggers that are switched off cost nothing: whether one is on is asked of the logger itself, and guarded.

    logger.debug("loss %s", loss)      nothing, while the guard on the logger's own answer holds
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from dynascope.capture.calls.arguments import Arguments, Keywords
from dynascope.capture.calls.registry import meaning
from dynascope.capture.reasons import ForeignCall
from dynascope.capture.signals import Break
from dynascope.capture.values import InstanceValue, Value, boolean
from dynascope.guards.state_calls import LogsAt

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine

@meaning(logging.Logger.isEnabledFor)
def is_enabled_for(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    logger = machine.realize(arguments[0])
    if not isinstance(logger, InstanceValue) or logger.object is None or logger.changed:
        raise Break(ForeignCall("isEnabledFor", "its logger is made inside"))
    level = machine.object_of([*arguments, *keywords.values()][1])
    answer = logging.Logger.isEnabledFor(logger.object, level)
    machine.guards.add(logger.source, LogsAt(level, answer))
    return boolean(answer)


@meaning(logging.getLogger)
def get_logger(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    """There is one of each name, and it stays."""
    names = [machine.object_of(value) for value in (*arguments, *keywords.values())]
    return machine.outside.fixed(logging.getLogger(*names), "logging.getLogger")
