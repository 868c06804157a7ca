"""What a report says about one file, found by line.

by_file(report)["model.py"].values[12]  ->  the tensors that line 12 makes, in the variant of its function that is shown
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator
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
from dynascope.report.span import Span
from dynascope.report.user_files import is_user_file, user_places
from dynascope.report.variants import one_variant

from dynascope_server.ide.line_map import LineMap
from dynascope_server.ide.problems import Problem, problems
from dynascope_server.ide.units import Unit, units

ByLine = dict[int, list]


@dataclass(frozen=True, slots=True)
class FileFacts:
    path: str
    units: tuple[Unit, ...]
    problems: tuple[Problem, ...]
    values: dict[int, list[ValueFact]]
    kernels: dict[int, list[KernelFact]]
    guards: dict[int, list[GuardFact]]
    externs: dict[int, list[ExternFact]]
    borders: dict[int, list[BorderFact]]
    functions: dict[int, list[FunctionFact]]
    """The compiled functions that do something for a line."""


@dataclass(frozen=True, slots=True)
class FileView:
    """One of the user's files as the editor shows it now: what was found, and where those lines are since."""

    path: str
    report: CompileReport
    facts: FileFacts
    lines: LineMap
    program: str
    """The file that was run to find this; often `path` itself."""
    outdated: bool = False
    """A newer run of the program ended without a report."""
    stale_functions: frozenset[str] = frozenset()
    """The compiled functions, by identifier, whose text is another now."""
    choice: frozenset[str] = frozenset()
    """The entries chosen to be shown; of other places it is the one used last."""
    live: frozenset[str] = frozenset()
    """The compiled functions that were captured again as they are edited, and have not run like this."""

    @property
    def stale(self) -> bool:
        return self.outdated or bool(self.stale_functions)

    @property
    def shown(self) -> CompileReport:
        """The report with the chosen variants only."""
        return one_variant(self.report, self.choice)

    def is_stale(self, function: str) -> bool:
        return self.outdated or function in self.stale_functions

    def is_stale_line(self, old: int) -> bool:
        named = self._functions_of(old)
        return any(map(self.is_stale, named)) if named else self.outdated

    def is_live_line(self, old: int) -> bool:
        return any(name in self.live for name in self._functions_of(old))

    def _functions_of(self, old: int) -> list[str]:
        functions = self.facts.functions.get(old, ())
        around = function_at(self.facts, old)
        return [function.identifier for function in functions] or ([around.identifier] if around else [])

    def old_line(self, present: int) -> int | None:
        """The line of the run text that stands on line `present` now."""
        return self.lines.old_line(present)


def by_file(report: CompileReport, choice: Collection[str] = ()) -> dict[str, FileFacts]:
    """The facts of every file of the user's that the report speaks of, the program itself always among them."""
    found = problems(report)
    shown = one_variant(report, choice)
    columns = _columns(shown)
    _add_other_calls(report, shown, columns)
    parts = units(report, shown)
    spoken_of = [report.program.file, *(problem.span.file for problem in found), *parts]
    spoken_of += [path for column in columns for path in column]
    return {
        path: _facts_of(path, parts.get(path, ()), found, columns)
        for path in dict.fromkeys(spoken_of)
        if is_user_file(path)
    }


def empty_facts(path: str) -> FileFacts:
    return FileFacts(path, (), (), {}, {}, {}, {}, {}, {})


def unit_at(facts: FileFacts, line: int) -> Unit | None:
    """The innermost function around a line of the text that was run, compiled itself or inlined."""
    around = [unit for unit in facts.units if unit.first <= line <= unit.last]
    return max(around, key=lambda unit: unit.first, default=None)


def function_at(facts: FileFacts, line: int) -> FunctionFact | None:
    """The compiled function that a line is part of, or for which it built a layer or made a call."""
    unit = unit_at(facts, line)
    if unit is not None:
        return unit.function
    return next(iter(facts.functions.get(line, ())), None)


def graphs_of(report: CompileReport, function: FunctionFact) -> tuple[GraphFact, ...]:
    wanted = {entry.graph for entry in function.entries}
    return tuple(graph for graph in report.graphs if graph.identifier in wanted)


def kernels_of(report: CompileReport, function: FunctionFact) -> tuple[KernelFact, ...]:
    wanted = {identifier for graph in graphs_of(report, function) for identifier in graph.kernels}
    return tuple(kernel for kernel in report.kernels if kernel.identifier in wanted)


def entries(report: CompileReport) -> Iterator[tuple[FunctionFact, EntryFact]]:
    return ((function, entry) for function in report.functions for entry in function.entries)


def _facts_of(
    path: str, parts: tuple[Unit, ...], found: tuple[Problem, ...], columns: tuple[dict[str, ByLine], ...]
) -> FileFacts:
    here = tuple(problem for problem in found if problem.span.file == path)
    return FileFacts(path, parts, here, *(column.get(path, {}) for column in columns))


def _columns(shown: CompileReport) -> tuple[dict[str, ByLine], ...]:
    """One table by file and line for each kind of fact, in the order of `FileFacts`' fields."""
    graphs = shown.graphs
    guards = [guard for _, entry in entries(shown) for guard in entry.guards]
    owner = {entry.graph: function for function, entry in entries(shown) if entry.graph is not None}
    return (
        _table((value, user_places(value.span, value.stack)) for graph in graphs for value in graph.values),
        _table((kernel, kernel.spans) for kernel in shown.kernels),
        _table((guard, user_places(guard.span, guard.stack)) for guard in guards),
        _table((extern, extern.spans or user_places(extern.span, ())) for graph in graphs for extern in graph.externs),
        _table((border, _place(border)) for graph in graphs for border in graph.borders),
        _table(
            (owner[graph.identifier], user_places(value.span, value.stack))
            for graph in graphs
            for value in graph.values
            if graph.identifier in owner
        ),
    )


def _add_other_calls(report: CompileReport, shown: CompileReport, columns: tuple[dict[str, ByLine], ...]) -> None:
    """A library's function is called on lines of the user's that another variant serves: such a line has that one's facts."""
    taken = {_call_place(entry) for _, entry in entries(shown)}
    latest: dict[Span, EntryFact] = {}
    for function, entry in entries(report):
        place = _call_place(entry)
        if place is not None and place not in taken and not is_user_file(function.span.file):
            if place not in latest or entry.last_use >= latest[place].last_use:
                latest[place] = entry
    for place, entry in latest.items():
        found = _columns(one_variant(report, {entry.identifier}))
        for column, other in zip(columns, found, strict=True):
            here = other.get(place.file, {}).get(place.line)
            if here is not None:
                column.setdefault(place.file, {}).setdefault(place.line, here)


def _call_place(entry: EntryFact) -> Span | None:
    return entry.callers[-1].span if entry.callers else None


def _table(facts: Iterable[tuple[Hashable, Iterable[Span]]]) -> dict[str, ByLine]:
    """Each fact once a line, however many of its spans lie there. Told apart by identity: large facts hash slowly."""
    table: dict[str, dict[int, dict[int, Hashable]]] = defaultdict(lambda: defaultdict(dict))
    for fact, spans in facts:
        for span in spans:
            table[span.file][span.line][id(fact)] = fact
    return {file: {line: list(found.values()) for line, found in lines.items()} for file, lines in table.items()}


def _place(border: BorderFact) -> tuple[Span, ...]:
    return (
        (border.producer_span,) if border.producer_span is not None and is_user_file(border.producer_span.file) else ()
    )
