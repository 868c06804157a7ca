"""What the report says of each line of a file: the index that the annotated source is made of.

line_facts(report, "model.py")[12].values     the tensors that line 12 makes
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import field

from dynascope.dataclass import dataclass
from dynascope.report.facts import CompileReport, EntryFact, FunctionFact, GuardFact, KernelFact, ValueFact
from dynascope.report.reason import Explanation
from dynascope.report.user_files import is_user_file, same_file, user_place, user_places


@dataclass
class LineFacts:
    """Everything about one line. Kernels are named by identifier, in order of appearance."""

    functions: list[FunctionFact] = field(default_factory=list)
    kernels: list[str] = field(default_factory=list)
    externs: list[str] = field(default_factory=list)
    values: list[ValueFact] = field(default_factory=list)
    breaks: list[Explanation] = field(default_factory=list)


def line_facts(report: CompileReport, file: str) -> dict[int, LineFacts]:
    """Line number (from 1) -> its facts, for lines of `file` that have any."""
    lines: dict[int, LineFacts] = defaultdict(LineFacts)
    for function in report.functions:
        place = function.span if is_user_file(function.span.file) else function.compiled_at
        if place is not None and same_file(place.file, file):
            lines[place.line].functions.append(function)
        for entry in function.entries:
            reason = entry.reason if entry.exit == "break" else None
            at = user_place(reason.span, reason.stack) if reason is not None else None
            if reason is not None and at is not None and same_file(at.file, file):
                _once(lines[at.line].breaks, reason)
    for graph in report.graphs:
        for value in graph.values:
            for span in user_places(value.span, value.stack):
                if same_file(span.file, file):
                    lines[span.line].values.append(value)
        for extern in graph.externs:
            for span in extern.spans:
                if same_file(span.file, file):
                    _once(lines[span.line].externs, short_operation(extern.operation))
    for kernel in report.kernels:
        for span in kernel.spans:
            if same_file(span.file, file):
                _once(lines[span.line].kernels, kernel.identifier)
    return dict(lines)


def files_of(report: CompileReport) -> list[str]:
    """The run file first, then every other file of the user's that a compiled function lies in."""
    files = [report.program.file] if report.program.file else []
    for function in report.functions:
        file = function.span.file
        if is_user_file(file) and not any(same_file(file, known) for known in files):
            files.append(file)
    return files


SAYS_MOST = ("TensorMatches", "Equals", "TruthIs", "LengthIs", "DictionaryKeysAre")
"""Kinds of guards that a person reads first: what the values are. The others say that code and modules are the same."""


def ranked(guards: list[GuardFact]) -> list[GuardFact]:
    """The guards of a line, those that say most first. What torch holds of its own comes last: no user has written it."""

    def rank(guard: GuardFact) -> int:
        says_most = guard.kind in SAYS_MOST and not guard.expression.startswith("torch.")
        return SAYS_MOST.index(guard.kind) if says_most else len(SAYS_MOST)

    return sorted(guards, key=rank)


PROGRAMS_OWN = frozenset({"torch-call-fails", "program-raises"})
"""Reasons that say: the program itself raises here."""


def shown_reason(report: CompileReport, entry: EntryFact) -> Explanation | None:
    """Why the entry ends where it does; None where that is the very error that ended the program, which is said once."""
    reason, error = entry.reason, report.program.error
    if reason is None or reason.span is None or error is None or reason.code not in PROGRAMS_OWN:
        return reason
    raised = {(os.path.abspath(frame.span.file), frame.span.line) for frame in error.stack}
    return None if (os.path.abspath(reason.span.file), reason.span.line) in raised else reason


def function_totals(report: CompileReport, function: FunctionFact) -> tuple[int, int, list[KernelFact]]:
    """Graphs, breaks and kernels of one function."""
    graphs = {entry.graph for entry in function.entries if entry.graph is not None}
    kernels = [kernel for kernel in report.kernels if kernel.graph in graphs]
    return len(graphs), breaks_of(function.entries), kernels


def breaks_of(entries: Iterable[EntryFact]) -> int:
    """Breaks by place: the same line that breaks in two entries is one break. A loop that goes on after one is none."""
    return len(
        {
            (entry.reason.code, entry.reason.span)
            for entry in entries
            if entry.exit == "break" and entry.reason and entry.reason.severity in ("error", "warning")
        }
    )


def short_operation(operation: str) -> str:
    """`aten.addmm.default` as people say it: `addmm`."""
    parts = operation.split(".")
    return parts[1] if len(parts) == 3 else operation


def _once(items: list, item: object) -> None:
    if item not in items:
        items.append(item)
