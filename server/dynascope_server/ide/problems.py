"""What went wrong or was not done, each at a place of the user's: the diagnostics of a report.

entry f0.e0 breaks at model.py:12 (data-dependent-branch), called from train.py:30
->  Problem(span=model.py:12, code="data-dependent-branch", related=(train.py:30 "called from `step`",))
"""

from __future__ import annotations

from dataclasses import dataclass

from dynascope.report.facts import CompileReport
from dynascope.report.findings import OF_SETTINGS, Finding, calm_findings
from dynascope.report.reason import Explanation, Severity
from dynascope.report.span import Span, UserStack
from dynascope.report.user_files import user_place


@dataclass(frozen=True, slots=True)
class Related:
    span: Span
    message: str


@dataclass(frozen=True, slots=True)
class Problem:
    span: Span
    severity: Severity
    code: str
    message: str
    related: tuple[Related, ...] = ()
    function: str = ""
    """The identifier of the compiled function it belongs to; empty for what concerns the program or the machine."""
    is_break: bool = False


def problems(report: CompileReport) -> tuple[Problem, ...]:
    """What was found, each thing once; what concerns the machine stands on the program's first line."""
    start = Span(report.program.file, 1)
    return tuple(dict.fromkeys(_problem(finding, start) for finding in calm_findings(report)))


def problem_of(explanation: Explanation, fallback: Span) -> Problem:
    """The explanation at its innermost place in the user's files, its callers and callees beside it."""
    where = explanation.span or (explanation.stack[-1].span if explanation.stack else fallback)
    place = user_place(where, explanation.stack) or fallback
    words = _words(explanation.message, explanation.remedy)
    return Problem(place, explanation.severity, explanation.code, words, _related(explanation.stack, place))


def machine_notes(report: CompileReport) -> tuple[Explanation, ...]:
    """What concerns no line: a missing compiler, a cache folder that cannot be used, a library's version."""
    notes = (note for graph in report.graphs for note in graph.notes if note.code not in OF_SETTINGS)
    placeless = (note for note in notes if not note.span and not note.stack)
    return tuple(dict.fromkeys((*(note for note in report.notes if note.span is None), *placeless)))


def _problem(finding: Finding, start: Span) -> Problem:
    place = finding.span or start
    words = _words(finding.message, finding.remedy)
    related = _related(finding.stack, place)
    # What is as it should be is said on its line, and is nobody's task.
    severity = "hint" if finding.is_expected else finding.severity
    return Problem(place, severity, finding.code, words, related, finding.function, finding.kind == "break")


def _related(stack: UserStack, place: Span) -> tuple[Related, ...]:
    return tuple(
        Related(frame.span, f"in `{frame.function}`")
        for frame in reversed(stack)
        if (frame.span.file, frame.span.line) != (place.file, place.line)
    )


def _words(message: str, remedy: str) -> str:
    return "\n".join(part for part in (message, remedy) if part)
