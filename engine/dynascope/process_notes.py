"""What a report says about the process rather than about a line: versions newer than tested, and what is replaced by what.

    torch 2.16.0 is newer than what Dynascope was tested with (2.11 to 2.15).
    The frame hook does not work in this interpreter (Python 3.15.2): it knows the frames of CPython 3.11 ... only.

Nothing is built, loaded or tried to find out: only what this process has come to use is looked at.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from dynascope.reasons import TensorLayoutUnknown
from dynascope.report.reason import Explanation, Reason
from dynascope.requirements import newer_than_tested


def process_notes() -> tuple[Explanation, ...]:
    return (*(reason.explain() for reason in _reasons()), *_hook_note())


def _reasons() -> Iterator[Reason]:
    torch = sys.modules.get("torch")
    if torch is None:
        return
    version = str(getattr(torch, "__version__", ""))
    yield from newer_than_tested(version)
    layouts = sys.modules.get("dynascope.guards.tensor_layout")
    if layouts is not None and layouts.tensor_layout.cache_info().currsize:
        from dynascope.frame import hook

        if hook.is_native() and layouts.tensor_layout() is None:
            yield TensorLayoutUnknown(version)


def _hook_note() -> tuple[Explanation, ...]:
    if "dynascope.frame.hook_native" not in sys.modules:
        return ()
    from dynascope.frame import hook

    note = hook.note()
    return () if note is None else (note,)
