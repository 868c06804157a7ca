"""Why a region is compiled once more: the guard that failed, in words and as data.

    why_again(state, values)  ->  Again("`x.size(0)` was 4 and is 5", ...), and x.size(0) is in state.symbolic
"""

from __future__ import annotations

import types
from typing import NamedTuple

from dynascope.backends import backend_name, takes_fixed_sizes
from dynascope.dataclass import dataclass
from dynascope.frame.resume import resume_origin
from dynascope.frame.stack_names import in_users_words
from dynascope.guards.failure import explain_failure, raised_by
from dynascope.guards.guard import Guard
from dynascope.guards.source import FrameValues
from dynascope.guards.varied import varied
from dynascope.reasons import GuardFailed, GuardRaises
from dynascope.region_state import RegionState
from dynascope.report.facts import ChangeFact
from dynascope.report.reason import Explanation
from dynascope.strictness import judge


class GuardFail(NamedTuple):
    """What `guard_fail_fn` is called with."""

    reason: str
    orig_code: types.CodeType


@dataclass(frozen=True)
class Again:
    """Why a region is compiled once more: in words, and as data."""

    explanation: Explanation
    change: ChangeFact
    reason: GuardFailed
    guard: Guard


def why_again(state: RegionState, values: FrameValues) -> Again | None:
    """Why no earlier entry serves: the guard of the latest one that failed. A number that changed becomes an input."""
    if not state.guards:
        return None
    from dynascope.changes import change_of

    latest = None
    for guards in state.guards:
        if state.options.dynamic is not False:
            state.symbolic |= varied(guards, values)
        failure = explain_failure(guards, values)
        if failure is None:
            continue
        guard, text = failure
        error = raised_by(guard, values) if state.options.strict else None
        if error is not None:
            note = GuardRaises(guard.describe(), f"{type(error).__name__}: {error}")
            judge(note.explain(guard.span, guard.stack), True, error)
        change = change_of(guard, values, state.region.code)
        is_in_between = resume_origin(state.region.code) is not None
        fixed_by = backend_name(state.options.backend) if takes_fixed_sizes(state.options.backend) else ""
        reason = GuardFailed(in_users_words(text, state.region.code), change, state.options.dynamic, is_in_between, fixed_by=fixed_by)
        if latest is None or latest.change.cause in OF_STATE or change.cause not in OF_STATE:
            latest = Again(reason.explain(guard.span or state.region.span, guard.stack), reason.change, reason, guard)
    return latest


OF_STATE = frozenset({"grad-mode", "state"})
"""An entry that was made in the same mode is nearer: what differs from it is why there is another one in this mode."""


