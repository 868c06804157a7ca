"""What went wrong or was not done, each at a place of the user's: the diagnostics of a report.

entry f0.e0 breaks at model.py:12 (data-dependent-branch), called from train.py:30
->  Problem(span=model.py:12, code="data-dependent-branch", related=(train.py:30 "called from `step`",))
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from dynascope.report.facts import CompileReport, FunctionFact
from dynascope.report.lines import shown_reason
from dynascope.report.reason import Explanation, Severity
from dynascope.report.span import Span

from dynascope_server.ide.user_files import is_user_file

SOFT: dict[Severity, Severity] = {"error": "information", "warning": "information"}
"""A recompilation or a note is news, not a defect, however the reason ranks as a break."""


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


def problems(report: CompileReport) -> tuple[Problem, ...]:
    """Every problem once, in the report's order; the same break in several entries is one problem."""
    return tuple(dict.fromkeys(_all_problems(report)))


def problem_of(explanation: Explanation, fallback: Span) -> Problem:
    """The explanation at its innermost place in the user's files, its callers and callees beside it."""
    where = explanation.span or (explanation.stack[-1].span if explanation.stack else fallback)
    frames = [frame for frame in explanation.stack if is_user_file(frame.span.file)]
    place = where if is_user_file(where.file) else (frames[-1].span if frames else fallback)
    related = tuple(
        Related(frame.span, f"in `{frame.function}`")
        for frame in reversed(explanation.stack)
        if (frame.span.file, frame.span.line) != (place.file, place.line)
    )
    return Problem(place, explanation.severity, explanation.code, words(explanation), related)


def words(explanation: Explanation) -> str:
    return "\n".join(part for part in (explanation.message, explanation.remedy) if part)


def _all_problems(report: CompileReport) -> Iterator[Problem]:
    start = Span(report.program.file, 1)
    if report.program.error is not None:
        yield problem_of(report.program.error, start)
    for function in report.functions:
        top = replace(function.span, column=None, end_line=None, end_column=None)
        for entry in function.entries:
            if (reason := shown_reason(report, entry)) is not None:
                yield problem_of(reason, entry.span if entry.exit in ("break", "raise") else top)
        yield from (problem_of(again, top) for again in _recompilations(function))
    for graph in report.graphs:
        yield from (problem_of(_softened(note), start) for note in graph.notes if note.span or note.stack)
    yield from (problem_of(note, start) for note in machine_notes(report))


def machine_notes(report: CompileReport) -> tuple[Explanation, ...]:
    """What concerns no line: a missing compiler, a cache folder that cannot be used, a library's version."""
    placeless = (note for graph in report.graphs for note in graph.notes if not note.span and not note.stack)
    return tuple(dict.fromkeys((*report.notes, *placeless)))


def _recompilations(function: FunctionFact) -> Iterator[Explanation]:
    """One for each place: a size that changes at every call would fill the list of problems."""
    places: dict[tuple, list[Explanation]] = {}
    for entry in function.entries:
        if entry.recompiled is not None:
            places.setdefault((entry.recompiled.code, entry.recompiled.span), []).append(entry.recompiled)
    for found in places.values():
        often = f" {len(found)} times, the last time because" if len(found) > 1 else ":"
        yield _softened(replace(found[-1], message=f"Compiled again{often} {found[-1].message}"))


def _softened(explanation: Explanation) -> Explanation:
    return replace(explanation, severity=SOFT.get(explanation.severity, explanation.severity))
