"""What the first call of a compiled function gave and made, for benches: a case that fell back to eager would say nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dynascope import recording
from dynascope.report.facts import CompileReport


def recorded(call: Callable[[], Any]) -> tuple[Any, CompileReport, str | None]:
    """The call's result, the report of what it compiled, and the first warning or error in that."""
    recorder = recording.Recorder()
    before = recording.use(recorder)
    try:
        result = call()
    finally:
        recording.use(before)
    report = recorder.report()
    notes = [note for part in (report, *report.graphs) for note in part.notes if note.severity in ("warning", "error")]
    return result, report, notes[0].message if notes else None
