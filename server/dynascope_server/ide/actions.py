"""The code actions at a line: all that a lens offers there, and what explains a problem on it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from dynascope_server.ide import acts
from dynascope_server.ide.acts import Act
from dynascope_server.ide.cells import is_cell
from dynascope_server.ide.file_facts import FileView, function_at, graphs_of, unit_at
from dynascope_server.ide.lenses import Activity, function_acts
from dynascope_server.ide.problems import Problem
from dynascope_server.ide.pytests import test_at
from dynascope_server.ide.units import Unit

RECOMPILED = "recompiled"


@dataclass(frozen=True, slots=True)
class Action:
    act: Act
    problem: Problem | None = None
    """The diagnostic that this action belongs to."""


def actions(
    path: str, view: FileView | None, activity: Activity, first: int, last: int, text: str = ""
) -> Iterator[Action]:
    """Actions for the present lines `first` to `last`, from 1, of the text as it is."""
    if view is not None:
        yield from _explanations(view, first, last)
        yield from _views(view, first)
    if activity == "idle" and (test := test_at(text, first)) is not None:
        act = Act(f"Dynascope: compile and run {test.name}", acts.RUN_TEST, path, detail={"test": test.name})
        yield Action(act)
    if activity == "running":
        yield Action(Act("Dynascope: cancel the run", acts.CANCEL, path))
    elif not is_cell(path):
        yield Action(acts.compile_and_run(path, "Dynascope: compile and run"))
    if view is not None:
        yield Action(Act("Dynascope: show the whole run", acts.SHOW_SUMMARY, view.path))
        yield Action(Act("Dynascope: clear results", acts.CLEAR, view.path))


def _explanations(view: FileView, first: int, last: int) -> Iterator[Action]:
    for problem in view.facts.problems:
        span = view.lines.span(problem.span)
        if span is not None and span.line <= last and first <= span.last_line:
            yield Action(Act(f"Explain {problem.code}", acts.SHOW_REASON, subject=problem.code), problem)
            if (problem.is_break or problem.code == RECOMPILED) and not is_cell(view.program):
                yield Action(Act("Find fixes that can be proved", acts.FIND_FIXES, view.path), problem)


def _views(view: FileView, line: int) -> Iterator[Action]:
    old = view.old_line(line)
    if old is None:
        return
    for kernel in view.facts.kernels.get(old, ()):
        detail = {"kernel": kernel.identifier, "line": line - 1}
        yield Action(Act(f"Dynascope: show kernel {kernel.name}", acts.SHOW_KERNEL, view.path, detail=detail))
    unit = unit_at(view.facts, old) or _unit_of_line(view, old)
    if unit is not None:
        for act in function_acts(view, unit):
            detail = act.detail
            if old != unit.first and act.command in (acts.SHOW_GRAPH, acts.SHOW_KERNEL):
                detail = {**detail, "line": line - 1}
            yield Action(replace(act, title=f"Dynascope: {unit.name}: {act.title}", detail=detail))
        if any(graph.steps for graph in graphs_of(view.shown, unit.function)):
            detail = {"function": unit.function.identifier}
            yield Action(Act(f"Dynascope: {unit.name}: show picture", acts.SHOW_PICTURE, view.path, detail=detail))


def _unit_of_line(view: FileView, old: int) -> Unit | None:
    """For a line that built a layer or made a call: the compiled function it works for."""
    function = function_at(view.facts, old)
    return Unit(function.name, function, view.path, old, old) if function is not None else None
