"""The functions of a file that are part of compiled code: compiled themselves, inlined into one, or a line that compiles one.

units(report, shown)["model.py"]  ->  (Unit("GPT.forward", f0, line 86), Unit("Block.forward", f0, line 70, inlined), ...)
units(report, shown)["train.py"]  ->  (Unit("GPT.forward", f0, line 12),)          `model = torch.compile(model)`
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from dynascope.report.facts import CompileReport, EntryFact, FunctionFact
from dynascope.report.findings import function_line
from dynascope.report.span import Span, UserFrame
from dynascope.report.user_files import is_user_file


@dataclass(frozen=True, slots=True)
class Unit:
    """`function` is the compiled function, `name` what stands on these lines: the function itself, or one inlined into it."""

    name: str
    function: FunctionFact
    file: str
    first: int
    last: int
    is_inlined: bool = False

    @property
    def is_elsewhere(self) -> bool:
        """Whether the function has lines of its own in the program, and these are not they."""
        span = self.function.span
        return not self.is_inlined and is_user_file(span.file) and (self.file, self.first) != (span.file, span.line)


def units(report: CompileReport, shown: CompileReport) -> dict[str, tuple[Unit, ...]]:
    """By file, in the order of lines. `shown` is the report with one variant of each function."""
    found: dict[tuple, Unit] = {}
    for function in report.functions:
        unit = _own_unit(function)
        found[unit.file, unit.first, unit.name] = unit
    for unit in filter(None, map(_asking_unit, report.functions)):
        found.setdefault((unit.file, unit.first, unit.name), unit)
    for unit in _inlined(shown):
        found.setdefault((unit.file, unit.first, unit.name), unit)
    by_file: dict[str, list[Unit]] = defaultdict(list)
    for unit in found.values():
        by_file[unit.file].append(unit)
    return {file: tuple(sorted(made, key=lambda unit: (unit.first, -unit.last))) for file, made in by_file.items()}


def _own_unit(function: FunctionFact) -> Unit:
    span = function.span
    if is_user_file(span.file):
        return Unit(function.name, function, span.file, span.line, span.last_line)
    place = function_line(function)
    return Unit(function.name, function, place.file, place.line, place.last_line)


def _asking_unit(function: FunctionFact) -> Unit | None:
    """The line that asked for a function that has lines of its own; a decorator is one of these."""
    span, place = function.span, function.compiled_at
    if place is None or not is_user_file(span.file) or not is_user_file(place.file):
        return None
    if place.file == span.file and span.line <= place.line <= span.last_line:
        return None
    return Unit(function.name, function, place.file, place.line, place.last_line)


def _inlined(shown: CompileReport) -> Iterator[Unit]:
    graphs = {graph.identifier: graph for graph in shown.graphs}
    for function in shown.functions:
        own = (function.span.file, function.span.line)
        for entry in function.entries:
            graph = graphs.get(entry.graph or "")
            frames = [frame for value in (graph.values if graph else ()) for frame in value.stack]
            frames += [frame for guard in entry.guards for frame in guard.stack]
            yield from _of_frames(function, dict.fromkeys(frames), own)


def _of_frames(function: FunctionFact, frames: dict[UserFrame, None], own: tuple[str, int]) -> Iterator[Unit]:
    for frame in frames:
        file, first = frame.span.file, frame.first_line
        if first and (file, first) != own and is_user_file(file) and not frame.function.endswith(">"):
            yield Unit(frame.function, function, file, first, frame.last_line, is_inlined=True)


def lines_of(function: FunctionFact) -> Iterator[tuple[str, int]]:
    """Every line whose meaning the function's compilations depend on."""
    spans = [function.span] if is_user_file(function.span.file) else []
    spans += [function.compiled_at] if function.compiled_at is not None else []
    for span in spans:
        yield from _lines(span)
    for entry in function.entries:
        yield from _lines_of_entry(entry)


def _lines_of_entry(entry: EntryFact) -> Iterator[tuple[str, int]]:
    for lines in entry.followed:
        yield from ((lines.file, line) for line in lines.lines)
    for guard in entry.guards:
        layer = guard.stack[-1].layer if guard.stack else None
        if layer is not None and layer.built is not None:
            yield layer.built.file, layer.built.line


def _lines(span: Span) -> Iterator[tuple[str, int]]:
    return ((span.file, line) for line in range(span.line, span.last_line + 1))
