"""Whether what was captured before an edit is captured after it: who takes a break out of a function must not take work along.

is_kept(before, after)   ->  False where `loss = f(logits)` is in a graph of the one and in none of the other
"""

from __future__ import annotations

from collections.abc import Callable

from dynascope.fixes.outside import is_work
from dynascope.report.facts import CompileReport
from dynascope.report.user_files import is_user_file

Ran = tuple[CompileReport, Callable[[str], str]]
"""What was captured, and the text of each file that ran."""


def is_kept(before: Ran, after: Ran) -> bool:
    """By the words of the lines, because lines move. One that the edit writes anew is compared by its results alone."""
    lost = _captured(*before) - _captured(*after)
    still = {line.strip() for file in _files(before[0]) for line in after[1](file).splitlines()}
    return not lost & still


def _captured(report: CompileReport, text_of: Callable[[str], str]) -> set[str]:
    rows = {file: text_of(file).splitlines() for file in _files(report)}
    return {rows[file][line - 1].strip() for file, line in _places(report) if line <= len(rows[file])}


def _files(report: CompileReport) -> set[str]:
    return {file for file, _ in _places(report)}


def _places(report: CompileReport) -> set[tuple[str, int]]:
    values = (value for graph in report.graphs for value in graph.values if is_work(value))
    spans = (span for value in values for span in (*(frame.span for frame in value.stack[-1:]), value.span))
    return {(span.file, span.line) for span in spans if span is not None and is_user_file(span.file)}
