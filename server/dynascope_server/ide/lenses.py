"""The lenses above a file and above each of its compiled functions.

line 1:   Dynascope: compile and run | 2 functions · 3 graphs · 1 break · 4 kernels
line 12:  2 graphs · 1 break · 3 kernels | show compiled kernel | 5 guards | variant 2 of 3 · x f32[2, 5]
line 30:  inlined into step | show compiled kernel | 2 guards
line 41:  Model.forward: 1 graph · 3 kernels | ...                  model = torch.compile(model)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from dynascope.report.facts import CompileReport, FunctionFact
from dynascope.report.lines import breaks_of
from dynascope.report.variants import chosen_variant, fitted_title

from dynascope_server.ide import acts
from dynascope_server.ide.acts import Act
from dynascope_server.ide.cells import is_cell
from dynascope_server.ide.file_facts import FileView, entries, graphs_of, kernels_of
from dynascope_server.ide.findings_of_looks import function_cost
from dynascope_server.ide.numbers import count
from dynascope_server.ide.pytests import is_file_of_tests, pytests
from dynascope_server.ide.units import Unit
from dynascope_server.ide.variants import LABEL_LENGTH

USES_TORCH = re.compile(r"^\s*(?:import|from)\s+(?:torch|dynascope)\b", re.MULTILINE)
STALE = "stale: run again"
LIVE = "live"


@dataclass(frozen=True, slots=True)
class Lens:
    line: int
    """From 1, in the present text."""
    act: Act


Activity = Literal["idle", "running"]
"""Of the program at a file."""


def lenses(path: str, text: str, view: FileView | None, activity: Activity, has_run: bool = False) -> list[Lens]:
    """Lenses of a file that uses torch, was run or that a report speaks of; none for other Python files."""
    if view is None and not has_run and activity == "idle" and (is_cell(path) or not USES_TORCH.search(text)):
        return []
    lenses = [*_file_lenses(path, view, activity), *(_function_lenses(view) if view is not None else ())]
    return [*lenses, *(_test_lenses(path, text) if activity == "idle" and is_file_of_tests(path) else ())]


def _test_lenses(path: str, text: str) -> Iterator[Lens]:
    for test in pytests(text):
        yield Lens(test.first, Act("Dynascope: compile and run this test", acts.RUN_TEST, path, detail={"test": test.name}))


def summary(report: CompileReport) -> str:
    if not report.functions:
        return "nothing was compiled"
    everything = [entry for _, entry in entries(report)]
    parts = [
        count(len(report.functions), "function"),
        count(len(report.graphs), "graph"),
        count(breaks_of(everything), "break"),
        count(len(report.kernels), "kernel"),
    ]
    return " · ".join(parts)


def function_acts(view: FileView, unit: Unit) -> Iterator[Act]:
    """Everything a person can look at in one function; the lenses and the code actions alike."""
    function = next(f for f in view.shown.functions if f.identifier == unit.function.identifier)
    if all(entry.status != "compiled" for entry in function.entries):
        yield from _uncompiled_acts(view, function)
        return
    yield from _look_acts(view, unit, function)
    yield from _variant_acts(view, unit)


def _look_acts(view: FileView, unit: Unit, function: FunctionFact) -> Iterator[Act]:
    """The graph, the kernels, the guards: of an inlined function those that have to do with its own lines."""
    detail: dict[str, str | int] = {"function": function.identifier}
    if unit.is_inlined:
        detail["line"] = (_line_with_value(view, unit) or unit.first) - 1
        title = f"inlined into {function.name}"
        kernels, guards = _kernels_on(view, unit), _guards_on(view, unit)
    else:
        title = f"{function.name}: " * unit.is_elsewhere + _function_summary(view, function)
        title = f"{LIVE} · {title}" if function.identifier in view.live else title
        kernels = len(kernels_of(view.shown, function))
        guards = sum(len(entry.guards) for entry in function.entries)
    yield Act(title, acts.SHOW_GRAPH, view.path, detail={**detail, "stage": "torch"})
    if kernels:
        yield Act("show compiled kernel" + "s" * (kernels > 1), acts.SHOW_KERNEL, view.path, detail=detail)
    if guards:
        yield Act(count(guards, "guard"), acts.SHOW_GRAPH, view.path, detail={**detail, "stage": "guards"})


def _variant_acts(view: FileView, unit: Unit) -> Iterator[Act]:
    whole = next(f for f in view.report.functions if f.identifier == unit.function.identifier)
    variant = chosen_variant(whole, view.choice)
    if variant is not None and variant.total > 1:
        detail = {"function": whole.identifier}
        yield Act(fitted_title(variant, LABEL_LENGTH), acts.CHOOSE_VARIANT, view.path, detail=detail)
        if not unit.is_inlined:
            yield Act("compare", acts.COMPARE_VARIANTS, view.path, detail=detail)


def _line_with_value(view: FileView, unit: Unit) -> int | None:
    """The first line of the function that is on a line of the present text and computes something."""
    lines = (line for line in sorted(view.facts.values) if unit.first <= line <= unit.last)
    return next((line for line in map(view.lines.line, lines) if line is not None), None)


def _kernels_on(view: FileView, unit: Unit) -> int:
    lines = range(unit.first, unit.last + 1)
    return len({kernel.identifier for line in lines for kernel in view.facts.kernels.get(line, ())})


def _guards_on(view: FileView, unit: Unit) -> int:
    return sum(len(view.facts.guards.get(line, ())) for line in range(unit.first, unit.last + 1))


def _function_lenses(view: FileView) -> Iterator[Lens]:
    for unit in view.facts.units:
        line = view.lines.line(unit.first)
        if line is None:
            continue
        if view.is_stale(unit.function.identifier):
            yield Lens(line, _run_again(view))
        yield from (Lens(line, act) for act in function_acts(view, unit))


def _file_lenses(path: str, view: FileView | None, activity: Activity) -> Iterator[Lens]:
    if activity == "running":
        yield Lens(1, Act("Dynascope: cancel the run", acts.CANCEL, path))
    elif not is_cell(path):
        yield Lens(1, acts.compile_and_run(path, "Dynascope: compile and run"))
    if view is None:
        return
    if view.stale:
        yield Lens(1, _run_again(view))
    yield Lens(1, Act(summary(view.report), acts.SHOW_SUMMARY, view.path))


def _run_again(view: FileView) -> Act:
    """A cell runs in its notebook's kernel, which is asked there."""
    if is_cell(view.program):
        return Act(STALE, acts.SHOW_SUMMARY, view.path)
    return acts.compile_and_run(view.program, STALE)


def _uncompiled_acts(view: FileView, function: FunctionFact) -> Iterator[Act]:
    reasons = {entry.reason.code: entry.reason for entry in function.entries if entry.reason is not None}
    for code in reasons:
        yield Act(f"not compiled: {code}", acts.SHOW_REASON, subject=code)
    if not reasons:
        yield Act("not compiled", acts.SHOW_SUMMARY, view.path)


def _function_summary(view: FileView, function: FunctionFact) -> str:
    """Of the variant that is shown; how often it was compiled again concerns all of them."""
    breaks = breaks_of(function.entries)
    whole = next(f for f in view.report.functions if f.identifier == function.identifier)
    again = sum(entry.recompiled is not None for entry in whole.entries)
    kernels = len(kernels_of(view.shown, function))
    parts = [
        count(len(graphs_of(view.shown, function)), "graph"),
        count(breaks, "break") if breaks else "",
        count(kernels, "kernel") if kernels else "",
        count(again, "recompilation") if again else "",
        function_cost(view.shown, [entry.graph for entry in function.entries]),
    ]
    return " · ".join(part for part in parts if part)
