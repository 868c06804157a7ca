"""What a report says about one file, found by line.

by_file(report)["model.py"].values[12]  ->  the tensors that line 12 makes
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass

from dynascope.report.facts import (
    BorderFact,
    CompileReport,
    EntryFact,
    ExternFact,
    FunctionFact,
    GraphFact,
    GuardFact,
    KernelFact,
    ValueFact,
)
from dynascope.report.span import Span, UserStack

from dynascope_server.ide.line_map import LineMap
from dynascope_server.ide.problems import Problem, problems
from dynascope_server.ide.user_files import is_user_file

ByLine = dict[int, list]


@dataclass(frozen=True, slots=True)
class FileFacts:
    path: str
    functions: tuple[FunctionFact, ...]
    problems: tuple[Problem, ...]
    values: dict[int, list[ValueFact]]
    kernels: dict[int, list[KernelFact]]
    guards: dict[int, list[GuardFact]]
    externs: dict[int, list[ExternFact]]
    borders: dict[int, list[BorderFact]]


@dataclass(frozen=True, slots=True)
class FileView:
    """One of the user's files as the editor shows it now: what was found, and where those lines are since."""

    path: str
    report: CompileReport | None
    facts: FileFacts
    lines: LineMap
    program: str
    """The file that was run to find this; often `path` itself."""
    outdated: bool = False
    """A newer run of the program ended without a report."""

    @property
    def stale(self) -> bool:
        return self.outdated or self.lines.changed

    def old_line(self, present: int) -> int | None:
        """The line of the run text that stands on line `present` now; only lines with facts are looked for."""
        if not self.lines.changed:
            return present
        return next((line for line in sorted(lines_with_facts(self.facts)) if self.lines.line(line) == present), None)


def by_file(report: CompileReport) -> dict[str, FileFacts]:
    """The facts of every file of the user's that the report speaks of, the program itself always among them."""
    found = problems(report)
    columns = _columns(report)
    spoken_of = [report.program.file, *(problem.span.file for problem in found)]
    spoken_of += [function.span.file for function in report.functions]
    spoken_of += [path for column in columns for path in column]
    return {path: _facts_of(path, report, found, columns) for path in dict.fromkeys(spoken_of) if is_user_file(path)}


def empty_facts(path: str) -> FileFacts:
    return FileFacts(path, (), (), {}, {}, {}, {}, {})


def lines_with_facts(facts: FileFacts) -> set[int]:
    columns = (facts.values, facts.kernels, facts.guards, facts.externs, facts.borders)
    lines = {line for column in columns for line in column} | {problem.span.line for problem in facts.problems}
    return lines | {line for function in facts.functions for line in (function.span.line, function.span.last_line)}


def function_at(facts: FileFacts, line: int) -> FunctionFact | None:
    """The innermost compiled function around a line of the text that was run."""
    around = [function for function in facts.functions if function.span.line <= line <= function.span.last_line]
    return max(around, key=lambda function: function.span.line, default=None)


def graphs_of(report: CompileReport, function: FunctionFact) -> tuple[GraphFact, ...]:
    wanted = {entry.graph for entry in function.entries}
    return tuple(graph for graph in report.graphs if graph.identifier in wanted)


def kernels_of(report: CompileReport, function: FunctionFact) -> tuple[KernelFact, ...]:
    wanted = {identifier for graph in graphs_of(report, function) for identifier in graph.kernels}
    return tuple(kernel for kernel in report.kernels if kernel.identifier in wanted)


def entries(report: CompileReport) -> Iterator[tuple[FunctionFact, EntryFact]]:
    return ((function, entry) for function in report.functions for entry in function.entries)


def breaks_of(entry_facts: Iterable[EntryFact]) -> int:
    """Breaks by place: the same line that breaks in two entries is one break."""
    return len(
        {(entry.reason.code, entry.reason.span) for entry in entry_facts if entry.exit == "break" and entry.reason}
    )


def _facts_of(
    path: str, report: CompileReport, found: tuple[Problem, ...], columns: tuple[dict[str, ByLine], ...]
) -> FileFacts:
    own = tuple(function for function in report.functions if function.span.file == path)
    here = tuple(problem for problem in found if problem.span.file == path)
    return FileFacts(path, own, here, *(column.get(path, {}) for column in columns))


def _columns(report: CompileReport) -> tuple[dict[str, ByLine], ...]:
    """One table by file and line for each kind of fact, in the order of `FileFacts`' fields."""
    graphs = report.graphs
    guards = [guard for _, entry in entries(report) for guard in entry.guards]
    return (
        _table((value, _places(value.span, value.stack)) for graph in graphs for value in graph.values),
        _table((kernel, kernel.spans) for kernel in report.kernels),
        _table((guard, _places(guard.span, guard.stack)) for guard in guards),
        _table((extern, _places(extern.span, ())) for graph in graphs for extern in graph.externs),
        _table((border, _places(border.producer_span, ())) for graph in graphs for border in graph.borders),
    )


def _table(facts: Iterable[tuple[Hashable, Iterable[Span]]]) -> dict[str, ByLine]:
    """Each fact once a line, however many of its spans lie there."""
    table: dict[str, dict[int, dict[Hashable, None]]] = defaultdict(lambda: defaultdict(dict))
    for fact, spans in facts:
        for span in spans:
            table[span.file][span.line][fact] = None
    return {file: {line: list(found) for line, found in lines.items()} for file, lines in table.items()}


def _places(span: Span | None, stack: UserStack) -> tuple[Span, ...]:
    """A fact inside a library shows on the user's line that called the library."""
    if span is not None and is_user_file(span.file):
        return (span,)
    frames = [frame.span for frame in stack if is_user_file(frame.span.file)]
    return (frames[-1],) if frames else ()
