"""A run's report together with what is known live: functions captured again as they are edited, in place of those that ran.

merged(report, maps, stale, answers)  ->  LiveReport(report on the edited lines, functions={"f0"}, stale={"f3"})
"""

from __future__ import annotations

import dataclasses
import itertools
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dynascope.report.facts import (
    CompileReport,
    EntryFact,
    ExternFact,
    FileLines,
    FunctionFact,
    GraphFact,
    GuardFact,
    KernelFact,
    LineLink,
    ValueFact,
)
from dynascope.report.reason import Explanation
from dynascope.report.span import Span, UserFrame

from dynascope_server.ide.line_map import LineMap

OF_A_LINE = (ValueFact, GuardFact, ExternFact, LineLink)
"""Facts that go with their line; others stay, at the nearest line that is left."""
NOT_KNOWN = "known-after-a-run"


@dataclass(frozen=True, slots=True)
class LiveReport:
    """`functions` are known as they are edited, `stale` as they ran; others were not edited."""

    report: CompileReport
    functions: frozenset[str]
    stale: frozenset[str]


def merged(
    report: CompileReport,
    maps: Mapping[str, LineMap],
    stale: frozenset[str],
    answers: Mapping[str, Sequence[CompileReport]],
    notes: Sequence[Explanation] = (),
    gone: frozenset[str] = frozenset(),
) -> LiveReport:
    """`maps`: where the lines of edited files are now. `answers`: by stale function, one report for each of its calls. `gone`: functions
    that are not there any more, of which nothing is said."""
    live = frozenset(identifier for identifier in stale - gone if answers.get(identifier))
    base = _moved(_without(report, live | gone), maps)
    numbers = _Numbers(report)
    functions: dict[str, FunctionFact] = {function.identifier: function for function in base.functions}
    raised = {identifier: _raises(report, identifier) for identifier in live}
    graphs, kernels, others, added = list(base.graphs), list(base.kernels), list(base.notes), set(live)
    for identifier, reports in answers.items():
        for answer in reports if identifier in live else ():
            answer = _with_what_is_new(answer, raised[identifier])
            answer, names = numbers.renamed(answer, identifier)
            added |= names
            for function in answer.functions:
                known = functions.get(function.identifier)
                functions[function.identifier] = function if known is None else _joined(known, function)
            graphs += answer.graphs
            kernels += answer.kernels
            others += [note for note in answer.notes if note.code == NOT_KNOWN]
    order = {function.identifier: number for number, function in enumerate(report.functions)}
    placed = sorted(functions.values(), key=lambda function: order.get(function.identifier, len(order)))
    made = replace(
        base, functions=tuple(placed), graphs=tuple(graphs), kernels=tuple(kernels),
        notes=tuple(dict.fromkeys((*others, *notes))),
    )  # fmt: skip
    return LiveReport(made, frozenset(added), stale - live - gone)


def _raises(report: CompileReport, identifier: str) -> set[str]:
    """The codes with which a function ended by raising in the run: who called it knows of that."""
    entries = (entry for function in report.functions if function.identifier == identifier for entry in function.entries)
    return {entry.reason.code for entry in entries if entry.exit == "raise" and entry.reason is not None}


def _with_what_is_new(answer: CompileReport, known: set[str]) -> CompileReport:
    """Where a call raises as it did in the run, that is no error of the edit."""
    functions = tuple(replace(f, entries=tuple(_softened(entry, known) for entry in f.entries)) for f in answer.functions)
    return replace(answer, functions=functions)


def _softened(entry: EntryFact, known: set[str]) -> EntryFact:
    if entry.exit != "raise" or entry.reason is None or entry.reason.code not in known:
        return entry
    return replace(entry, reason=replace(entry.reason, severity="information"))


def _without(report: CompileReport, functions: frozenset[str]) -> CompileReport:
    gone = {entry.graph for f in report.functions if f.identifier in functions for entry in f.entries}
    return replace(
        report,
        functions=tuple(f for f in report.functions if f.identifier not in functions),
        graphs=tuple(graph for graph in report.graphs if graph.identifier not in gone),
        kernels=tuple(kernel for kernel in report.kernels if kernel.graph not in gone),
    )


def _joined(known: FunctionFact, other: FunctionFact) -> FunctionFact:
    """Two calls of one function are variants of each other."""
    return replace(known, entries=(*known.entries, *_entries(other.entries, known.identifier, len(known.entries))))


def _entries(entries: Sequence[EntryFact], function: str, first: int = 0) -> tuple[EntryFact, ...]:
    """As entries of this function, numbered from `first` on."""
    names = {entry.identifier: f"{function}.e{number}" for number, entry in enumerate(entries, first)}
    return tuple(replace(e, identifier=names[e.identifier], began=names.get(e.began, "")) for e in entries)


class _Numbers:
    """Identifiers for what was captured again: those of what it takes the place of, so that a document that is open follows the
    edit, then such as the run's report does not use."""

    def __init__(self, report: CompileReport) -> None:
        owner = {e.graph: f.identifier for f in report.functions for e in f.entries if e.graph is not None}
        self._graphs_of: dict[str, list[str]] = defaultdict(list)
        self._kernels_of: dict[str, list[str]] = defaultdict(list)
        for graph in reversed(report.graphs):
            self._graphs_of[owner.get(graph.identifier, "")].append(graph.identifier)
        for kernel in reversed(report.kernels):
            self._kernels_of[owner.get(kernel.graph, "")].append(kernel.identifier)
        self._functions = itertools.count(_next(f.identifier for f in report.functions))
        self._graphs = itertools.count(_next(g.identifier for g in report.graphs))
        self._kernels = itertools.count(_next(k.identifier for k in report.kernels))

    def renamed(self, answer: CompileReport, asked: str) -> tuple[CompileReport, set[str]]:
        """The first function is the one that was asked about; others are parts of functions inlined into it."""
        old_graphs, old_kernels = self._graphs_of[asked], self._kernels_of[asked]
        graphs = {g.identifier: old_graphs.pop() if old_graphs else f"g{next(self._graphs)}" for g in answer.graphs}
        kernels = {
            k.identifier: old_kernels.pop() if old_kernels else f"k{next(self._kernels)}" for k in answer.kernels
        }
        functions: list[FunctionFact] = []
        for function in answer.functions:
            name = asked if not functions else f"f{next(self._functions)}"
            entries = tuple(replace(e, graph=graphs.get(e.graph or "")) for e in _entries(function.entries, name))
            functions.append(replace(function, identifier=name, entries=entries))
        made = replace(
            answer,
            functions=tuple(functions),
            graphs=tuple(_graph(graph, graphs, kernels) for graph in answer.graphs),
            kernels=tuple(_kernel(kernel, graphs, kernels) for kernel in answer.kernels),
        )
        return made, {function.identifier for function in functions}


def _graph(graph: GraphFact, graphs: Mapping[str, str], kernels: Mapping[str, str]) -> GraphFact:
    return replace(graph, identifier=graphs[graph.identifier], kernels=tuple(kernels[k] for k in graph.kernels))


def _kernel(kernel: KernelFact, graphs: Mapping[str, str], kernels: Mapping[str, str]) -> KernelFact:
    return replace(kernel, identifier=kernels[kernel.identifier], graph=graphs.get(kernel.graph, kernel.graph))


def _next(identifiers: Iterator[str]) -> int:
    return max((int(each[1:]) for each in identifiers if each[1:].isdigit()), default=-1) + 1


GONE = object()


def _moved(value: Any, maps: Mapping[str, LineMap]) -> Any:
    """The same on the lines as they are now; `GONE` for what was on a line that is not there any more."""
    if isinstance(value, Span):
        lines = maps.get(value.file)
        return value if lines is None else lines.span(value) or _nearest(value, lines)
    if isinstance(value, OF_A_LINE) and value.span is not None and _is_gone(value.span, maps):
        return GONE
    if isinstance(value, FileLines):
        lines = maps.get(value.file)
        return value if lines is None else replace(value, lines=tuple(n for n in map(lines.line, value.lines) if n))
    if isinstance(value, tuple):
        left = (item for item in value if not (isinstance(item, Span) and _is_gone(item, maps)))
        return tuple(item for item in (_moved(item, maps) for item in left) if item is not GONE)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = ((field.name, getattr(value, field.name)) for field in dataclasses.fields(value))
        held = {name: item for name, item in fields if isinstance(item, tuple) or dataclasses.is_dataclass(item)}
        moved = {name: _moved(item, maps) for name, item in held.items()}
        if isinstance(value, UserFrame) and value.first_line and value.span.file in maps:
            around = _nearest(Span(value.span.file, value.first_line, None, value.last_line), maps[value.span.file])
            moved |= {"first_line": around.line, "last_line": around.last_line}
        return replace(value, **moved)
    return value


def _is_gone(span: Span, maps: Mapping[str, LineMap]) -> bool:
    return span.file in maps and maps[span.file].line(span.line) is None


def _nearest(span: Span, lines: LineMap) -> Span:
    """From where its first line is to where its last one is; edited lines count as the ones before them."""
    first = next((n for n in map(lines.line, range(span.line, 0, -1)) if n), 1)
    if span.end_line is None:
        return replace(span, line=first)
    last = next((n for n in map(lines.line, range(span.last_line, span.line - 1, -1)) if n), first)
    return replace(span, line=first, end_line=max(first, last))
