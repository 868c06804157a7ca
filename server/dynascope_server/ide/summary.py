"""The pages in prose: a whole run, and the guards of one entry. Each is (Markdown text, links to the user's lines)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from dynascope.report.facts import CompileReport, EntryFact, FunctionFact, LineLink
from dynascope.report.findings import function_line
from dynascope.report.lines import ranked
from dynascope.report.reason import Explanation
from dynascope.report.span import Span, UserStack
from dynascope.report.stages import LANGUAGE_NAMES
from dynascope.report.user_files import user_place
from dynascope.report.variants import Variant, fitted_title, variants_of

from dynascope_server.ide.cells import is_cell
from dynascope_server.ide.findings_of_looks import check_words, cost_rows, found_out
from dynascope_server.ide.numbers import count

Page = tuple[str, tuple[LineLink, ...]]
TITLE_LENGTH = 80
"""Of a variant, before the rest of its line."""
Row = tuple[str, Span | None]
"""A line of Markdown, and the place that its end names."""


def summary_page(report: CompileReport) -> Page:
    return _page(_summary_rows(report))


def guards_page(function: FunctionFact, entry: EntryFact) -> Page:
    return _page(_guard_rows(function, entry))


def _summary_rows(report: CompileReport) -> Iterator[Row]:
    program, environment = report.program, report.environment
    yield f"# {os.path.basename(program.file)}", None
    yield "", None
    yield f"Python {environment.python}, torch {environment.torch}, device {environment.device}.", None
    if not is_cell(program.file):  # its notebook's kernel goes on
        yield _outcome(report), None
    if program.error is not None:
        yield from _explanation_rows("The program raised", program.error)
    for function in report.functions:
        yield from _function_rows(function)
    if report.kernels:
        yield from _heading("Kernels")
        for kernel in report.kernels:
            place = kernel.spans[0] if kernel.spans else None
            yield f"- `{kernel.identifier}` {kernel.name}, {LANGUAGE_NAMES[kernel.language]}, {kernel.phase}", place
    yield from _look_rows(report)
    for note in report.notes:
        yield from _explanation_rows("Note", note)


def _look_rows(report: CompileReport) -> Iterator[Row]:
    """What a run found out besides, where somebody asked for it."""
    rows = list(cost_rows(report))
    if rows:
        yield from _heading("What costs most")
        for text, spans in rows:
            yield text, spans[0] if spans else None
    if report.checks:
        yield from _heading("Beside float64")
        yield f"{found_out(report).capitalize()}.", None
        yield "", None
        for fact in report.checks:
            yield f"- {check_words(fact)}", fact.span


def _outcome(report: CompileReport) -> str:
    program = report.program
    took = f" after {program.seconds:.1f} s" if program.seconds is not None else ""
    if program.signal is not None:
        return f"Ended by signal {program.signal}{took}."
    return "Still running." if program.exit_code is None else f"Exit code {program.exit_code}{took}."


def _function_rows(function: FunctionFact) -> Iterator[Row]:
    where = function_line(function)
    yield from _heading(f"`{function.name}`", where)
    variants = {
        variant.entry.identifier: variant
        for place in {entry.place for entry in function.entries}
        for variant in variants_of(function, place)
        if variant.total > 1
    }
    reasons: set[Explanation] = set()
    for entry in function.entries:
        seconds = sum(entry.seconds.values())
        variant = variants.get(entry.identifier)
        graph = f"graph `{entry.graph}`" if entry.graph else "no graph"
        told = [f"{_part(entry, variant)}: {graph}", count(len(entry.guards), "guard")]
        if entry.status == "uncompiled":
            what = "raises, because of `fullgraph=True`" if entry.exit == "raise" else "runs uncompiled"
        else:
            what = ", ".join([*told, ENDS.get(entry.exit, f"ends with {entry.exit}")])
        place = user_place(entry.span, entry.callers) or where
        yield f"- {what}, {seconds * 1000:.0f} ms", place if place.line != where.line or place.file != where.file else None
        if entry.recompiled is not None:
            yield from _explanation_rows("  - compiled again", entry.recompiled, entry.callers)
        if entry.reason is not None:
            is_known = entry.reason in reasons
            reasons.add(entry.reason)
            shown = replace(entry.reason, remedy="") if is_known else entry.reason
            yield from _explanation_rows("  - because", shown, entry.callers)


ENDS = {"break": "ends at a break", "raise": "ends with an exception", "return": "returns"}


def _part(entry: EntryFact, variant: Variant | None = None) -> str:
    """Where it begins, and of several compilations which: `variant 2 of 3 · x f32[2, 5]`."""
    number, _, label = ("" if variant is None else fitted_title(variant, TITLE_LENGTH)).partition(" · ")
    title = f"{number} · `{label}`" if label else number
    if entry.region == "resume":
        return ", ".join(filter(None, (f"from line {entry.span.line} on", title)))
    return title or "from its start"


def _guard_rows(function: FunctionFact, entry: EntryFact) -> Iterator[Row]:
    part = f" {_part(entry)}" if entry.region == "resume" else ""
    yield f"# What `{function.name}` assumes{part}", None
    yield "", None
    several = [each for each in variants_of(function, entry.place) if each.entry.identifier == entry.identifier and each.total > 1]
    number, _, label = fitted_title(several[0], TITLE_LENGTH).partition(" · ") if several else ("", "", "")
    which = f"{number.capitalize()}{f' · `{label}`' if label else ''}" if number else "This compilation"
    yield f"{which} serves a call only while all of these hold; otherwise another is made.", None
    yield "", None
    for guard in ranked(list(entry.guards)):
        yield f"- {guard.check}", guard.span


def _explanation_rows(title: str, explanation: Explanation, callers: UserStack = ()) -> Iterator[Row]:
    """At the user's own place, also where it happened in a library."""
    message, remedy = _one_line(explanation.message), _one_line(explanation.remedy)
    message = message if not remedy or message.endswith((".", "!", "?", ":")) else f"{message}."
    place = user_place(explanation.span, explanation.stack or callers) or explanation.span
    yield f"{title} ({explanation.code}): {message} {remedy}".rstrip(), place


def _heading(title: str, span: Span | None = None) -> Iterator[Row]:
    yield "", None
    yield f"## {title}", span
    yield "", None


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _page(rows: Iterator[Row]) -> Page:
    lines: list[str] = []
    links: list[LineLink] = []
    for text, span in rows:
        lines.append(text if span is None else f"{text} ({place_link(span)})")
        if span is not None:
            links.append(LineLink(len(lines), span))
    return "\n".join(lines) + "\n", tuple(links)


def place_link(span: Span) -> str:
    """A link that works where the page is shown rendered; plain where there is no file to lead to."""
    if not os.path.isabs(span.file):
        return span.place
    return f"[{span.place}]({Path(span.file).as_uri()}#L{span.line})"
