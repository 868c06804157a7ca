"""What a run has to say, each thing once: the one list that the terminal, SARIF, GitHub and the editor all show.

findings(report)  ->  [Finding("break", "warning", "data-dependent-branch", "`if x.sum() > 0` needs ...", span, ...), ...]
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Literal

from dynascope.dataclass import dataclass
from dynascope.report.facts import Cause, ChangeFact, CompileReport, EntryFact, FunctionFact
from dynascope.report.lines import shown_reason
from dynascope.report.reason import Explanation, Severity
from dynascope.report.span import Span, UserStack
from dynascope.report.user_files import user_place

Again = tuple[Explanation, ChangeFact | None]
"""Why a compilation was made again, in words and as data."""
Kind = Literal["error", "break", "recompile", "uncompiled", "limit", "note", "machine"]
SOFT: dict[Severity, Severity] = {"error": "information", "warning": "information"}
"""A recompilation or a note is news, not a defect, however the reason ranks as a break."""
OF_SETTINGS = frozenset({"mode-not-honoured"})
"""Notes about what was asked of `torch.compile`: they stand where the function was handed to it."""
TELLING = "print-call"
"""The break at a call that writes or shows something."""
VALUES_SHOWN = 4
ITEM = re.compile(r"\[\d+\]")
NUMBER = re.compile(r"\d+")
CAUSES: dict[Cause, str] = {
    "number": "a varying number",
    "attribute": "an attribute that the program changes",
    "size": "sizes that vary",
    "none": "None at times",
    "grad-mode": "with gradients and without",
    "state": "torch's state",
    "type": "types that vary",
    "dtype": "dtypes or devices that vary",
    "requires-grad": "requires grad at times",
    "layout": "strides that vary",
    "length": "lengths that vary",
    "value": "a varying value",
    "object": "another object",
    "other": "",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing, at the user's own place; `span` is None for what concerns the machine. `stack` leads to it."""

    kind: Kind
    severity: Severity
    code: str
    message: str
    remedy: str
    span: Span | None
    stack: UserStack = ()
    function: str = ""
    """The identifier of the compiled function, if it belongs to one."""
    times: int = 1
    is_expected: bool = False
    """As it should be, such as one compilation with gradients and one without."""
    change: ChangeFact | None = None
    """What differed last, where something was compiled again."""
    raises: bool = False
    """Of kind `uncompiled`: nothing ran, because the program asked for one graph (`fullgraph=True`)."""


def findings(report: CompileReport) -> tuple[Finding, ...]:
    """In the program's order: its own error, then by file and line, then what concerns the machine."""
    found = dict.fromkeys(_merged(_all(report)))
    main = report.program.file
    return tuple(sorted(found, key=lambda f: (_ORDER.get(f.kind, 1), *_place_key(f.span, main))))


def calm_findings(report: CompileReport) -> tuple[Finding, ...]:
    """`findings`, without what comes of a statement that only tells something, and of which it is said that it does: the numbers that
    a `print` takes out of tensors, the text that it makes, and what is compiled again for another text."""
    found = findings(report)
    telling = [each.span for each in found if each.kind == "break" and each.code == TELLING and each.span is not None]
    return tuple(each for each in found if each.kind not in ("break", "recompile") or not _is_inside(each.span, telling))


def _is_inside(span: Span | None, others: list[Span]) -> bool:
    return span is not None and span.column is not None and any(other != span and other.contains(span) for other in others)


_ORDER = {"error": 0, "machine": 2}


def _place_key(span: Span | None, main: str) -> tuple:
    return (True, "", 0, 0) if span is None else (span.file != main, span.file, span.line, span.column or 0)


def _merged(found: Iterator[Finding]) -> list[Finding]:
    """The same thing at the same place is said once, with the longest way there; so is what differs by the sizes in its words."""
    by_key: dict[tuple, Finding] = {}
    for finding in found:
        said = finding.message if finding.kind == "recompile" else NUMBER.sub("0", finding.message)
        key = (finding.kind, finding.code, said, finding.span)
        known = by_key.get(key)
        if known is None:
            by_key[key] = finding
        else:
            stack = max(known.stack, finding.stack, key=len)
            by_key[key] = replace(known, stack=stack, times=known.times + finding.times)
    return list(by_key.values())


def _all(report: CompileReport) -> Iterator[Finding]:
    if report.program.error is not None:
        yield _finding("error", report.program.error, Span(report.program.file, 1))
    for function in report.functions:
        for entry in function.entries:
            reason = shown_reason(report, entry)
            if reason is not None:
                kind, fallback = _ending(function, entry)
                raises = kind == "uncompiled" and entry.exit == "raise"
                yield replace(_finding(kind, reason, fallback), function=function.identifier, raises=raises)
        yield from _recompilations(function)
    start = Span(report.program.file, 1)
    compiled_at = {entry.graph: each.compiled_at or function_line(each) for each in report.functions for entry in each.entries}
    for graph in report.graphs:
        for note in graph.notes:
            if note.span is not None or note.stack != ():
                yield _finding("note", note if note.severity == "error" else _softened(note), start)
            else:
                where = compiled_at.get(graph.identifier) if note.code in OF_SETTINGS else None
                yield replace(_finding("machine", note, start), span=where)
    for note in report.notes:
        if note.span is None:
            yield replace(_finding("machine", note, start), span=None)
        else:
            yield _finding("limit" if note.code == "recompile-limit" else "note", note, note.span)


def _ending(function: FunctionFact, entry: EntryFact) -> tuple[Kind, Span]:
    if entry.status == "uncompiled":
        return "uncompiled", function_line(function)
    return ("break" if entry.exit == "break" else "note"), entry.span


def function_line(function: FunctionFact) -> Span:
    """Where a function is spoken of: its own first line, or where a library's function was handed to the compiler."""
    top = replace(function.span, column=None, end_line=None, end_column=None)
    callers = next((entry.callers for entry in function.entries if entry.callers), ())
    return user_place(top, callers if function.compiled_at is None else ()) or function.compiled_at or top


def _finding(kind: Kind, explanation: Explanation, fallback: Span) -> Finding:
    where = explanation.span or (explanation.stack[-1].span if explanation.stack else fallback)
    place = user_place(where, explanation.stack) or user_place(fallback, ()) or where
    return Finding(
        kind, explanation.severity, explanation.code, explanation.message, explanation.remedy, place, explanation.stack
    )


def _recompilations(function: FunctionFact) -> Iterator[Finding]:
    """One for each cause: a size that differs at every call would fill the page. Other items of one list at one place are one cause."""
    causes: dict[tuple, list[Again]] = {}
    seen: dict[tuple, set[str]] = {}
    for entry in function.entries:
        if entry.recompiled is not None:
            change = entry.change
            if change is None:
                key = (entry.recompiled.span, "other", 0)
            else:
                key = _one_cause(change, entry.place, seen)
                seen.setdefault(key, set()).update((change.before, change.now))
            causes.setdefault(key, []).append((entry.recompiled, change))
    alike: dict[tuple, list[Again]] = {}
    for key, again in causes.items():
        explanation, change = again[-1]
        key = key if change is None else (ITEM.sub("[]", change.expression), change.cause, explanation.span)
        alike.setdefault(key, []).extend(again)
    for again in alike.values():
        explanation, change = again[-1]
        told = replace(_softened(explanation), message=_again(again))
        is_each_once = len(again) == 1 or all(each and each.cause == "grad-mode" for _, each in again) and _are_alike(again)
        expected = is_each_once and change is not None and (change.cause in ("grad-mode", "number", "attribute") or change.is_first_filling)
        found = _finding("recompile", told, function_line(function))
        yield replace(found, function=function.identifier, times=len(again), is_expected=expected, change=change)


def _are_alike(again: list[Again]) -> bool:
    """Whether one change was met by several parts of a function, between its breaks."""
    return len({(change.before, change.now) for _, change in again if change is not None}) == 1


def _one_cause(change: ChangeFact, place: int, seen: Mapping[tuple, set[str]]) -> tuple:
    """Behind a break a name may be another thing by now: what differs there is the same cause where values are the same."""
    own = (change.expression, change.cause, place)
    known = (key for key, values in seen.items() if key[:2] == own[:2] and values & {change.before, change.now})
    return own if own in seen else next(known, own)


def _again(again: list[Again]) -> str:
    explanation, last = again[-1]
    if len(again) == 1:
        return _sentence(f"Compiled again: {explanation.message}")
    changes = [change for _, change in again if change is not None]
    values = list(dict.fromkeys(value for change in changes for value in (change.before, change.now)))
    are_of_one = len({change.expression for change in changes}) == 1 and all(values) and len(values) > 1
    if last is None or not are_of_one or last.cause == "length":
        return _sentence(f"Compiled again {len(again)} times, the last time because {explanation.message}")
    shown = values if len(values) <= VALUES_SHOWN else [*values[: VALUES_SHOWN - 1], "...", values[-1]]
    why = f" ({CAUSES[last.cause]})" if CAUSES[last.cause] else ""
    what = last.expression if last.cause in ("grad-mode", "state") else f"`{last.expression}`"
    return f"Compiled again {len(again)} times: {what} was {', '.join(shown)}{why}."


def _sentence(text: str) -> str:
    """In SARIF and GitHub's lines the remedy follows in the same paragraph."""
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _softened(explanation: Explanation) -> Explanation:
    return replace(explanation, severity=SOFT.get(explanation.severity, explanation.severity))
