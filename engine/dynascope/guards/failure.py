"""Why a compiled entry did not serve a call: the first guard that does not hold, in English."""

from __future__ import annotations

from collections.abc import Iterable

from dynascope.guards.guard import Guard
from dynascope.guards.source import FrameValues


def explain_failure(guards: Iterable[Guard], values: FrameValues) -> tuple[Guard, str] | None:
    """The first guard that fails on these values and what is different now; None where all hold."""
    for guard in guards:
        words = guard.failure(values)
        if words is not None:
            return guard, words
    return None


GONE = (AttributeError, LookupError, NameError, ReferenceError)
"""What reading a place raises that does not exist any more; an empty cell raises ValueError too."""


def raised_by(guard: Guard, values: FrameValues) -> Exception | None:
    """The exception that asking this guard swallows, where it is no sign of a place that is gone: a defect of the guard,
    or of the user's own `__eq__`."""
    try:
        found = [source.read(values) for source in guard.sources]
    except (*GONE, ValueError):
        return None
    except Exception as error:
        return error
    try:
        bool(guard.predicate.holds(*found))
    except Exception as error:
        return error
    return None
