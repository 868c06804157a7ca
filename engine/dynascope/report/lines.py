"""What the report says of each line of a file: the one index that the terminal and the editor both read.

line_facts(report, "model.py")[12].values     the tensors that line 12 makes
"""

from __future__ import annotations

import os
from collections import defaultdict
from dataclasses import dataclass, field

from dynascope.report.facts import CompileReport, EntryFact, FunctionFact, GuardFact, KernelFact, ValueFact
from dynascope.report.reason import Explanation
from dynascope.report.span import Span, UserStack


@dataclass
class LineFacts:
    """Everything about one line. Graphs and kernels are named by identifier, in order of appearance."""

    functions: list[FunctionFact] = field(default_factory=list)
    graphs: list[str] = field(default_factory=list)
    kernels: list[str] = field(default_factory=list)
    externs: list[str] = field(default_factory=list)
    values: list[ValueFact] = field(default_factory=list)
    guards: list[GuardFact] = field(default_factory=list)
    reasons: list[Explanation] = field(default_factory=list)
    recompilations: list[Explanation] = field(default_factory=list)


def line_facts(report: CompileReport, file: str) -> dict[int, LineFacts]:
    """Line number (from 1) -> its facts, for lines of `file` that have any."""
    lines: dict[int, LineFacts] = defaultdict(LineFacts)
    place = os.path.abspath(file)
    for function in report.functions:
        if same_file(function.span.file, place):
            lines[function.span.line].functions.append(function)
        for entry in function.entries:
            _add_entry(report, entry, lines, place)
    _add_graphs(report, lines, place)
    for kernel in report.kernels:
        for span in kernel.spans:
            if same_file(span.file, place):
                _once(lines[span.line].kernels, kernel.identifier)
    if report.program.error and report.program.error.span and same_file(report.program.error.span.file, place):
        lines[report.program.error.span.line].reasons.append(report.program.error)
    return dict(lines)


def files_of(report: CompileReport) -> list[str]:
    """The run file first, then every other file that a compiled function lies in."""
    files = [report.program.file] if report.program.file else []
    for function in report.functions:
        if not any(same_file(function.span.file, os.path.abspath(known)) for known in files):
            files.append(function.span.file)
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


def same_file(file: str, place: str) -> bool:
    return os.path.abspath(file) == place


def function_totals(report: CompileReport, function: FunctionFact) -> tuple[int, int, list[KernelFact]]:
    """Graphs, breaks and kernels of one function."""
    graphs = {entry.graph for entry in function.entries if entry.graph is not None}
    breaks = {(e.reason.code, e.reason.span) for e in function.entries if e.exit == "break" and e.reason is not None}
    kernels = [kernel for kernel in report.kernels if kernel.graph in graphs]
    return len(graphs), len(breaks), kernels


def _add_entry(report: CompileReport, entry: EntryFact, lines: dict[int, LineFacts], place: str) -> None:
    for guard in entry.guards:
        if guard.span is not None and same_file(guard.span.file, place):
            _once(lines[guard.span.line].guards, guard)
    for explanation, kind in ((shown_reason(report, entry), "reasons"), (entry.recompiled, "recompilations")):
        if explanation is not None and explanation.span is not None and same_file(explanation.span.file, place):
            _once(getattr(lines[explanation.span.line], kind), explanation)


def _add_graphs(report: CompileReport, lines: dict[int, LineFacts], place: str) -> None:
    for graph in report.graphs:
        for value in graph.values:
            line = line_in(place, value.span, value.stack)
            if line is not None:
                _once(lines[line].graphs, graph.identifier)
                lines[line].values.append(value)
        for extern in graph.externs:
            if extern.span is not None and same_file(extern.span.file, place):
                _once(lines[extern.span.line].externs, short_operation(extern.operation))


def short_operation(operation: str) -> str:
    """`aten.addmm.default` as people say it: `addmm`."""
    parts = operation.split(".")
    return parts[1] if len(parts) == 3 else operation


def line_in(place: str, span: Span | None, stack: UserStack) -> int | None:
    """The line of the file that a step belongs to: its own, or the one that called the function it happened in."""
    if span is not None and same_file(span.file, place):
        return span.line
    return next((frame.span.line for frame in reversed(stack) if same_file(frame.span.file, place)), None)


def _once(items: list, item: object) -> None:
    if item not in items:
        items.append(item)
