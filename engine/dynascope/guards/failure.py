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
