"""The lenses above a file and above each of its compiled functions.

line 1:   Dynascope: compile and run | 2 functions · 3 graphs · 1 break · 4 kernels
line 12:  2 graphs · 1 break · 3 kernels | show compiled kernel | 5 guards
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from dynascope.report.facts import CompileReport, FunctionFact

from dynascope_server.ide import acts
from dynascope_server.ide.acts import Act
from dynascope_server.ide.file_facts import FileView, breaks_of, entries, graphs_of, kernels_of
from dynascope_server.ide.numbers import count

USES_TORCH = re.compile(r"^\s*(?:import|from)\s+(?:torch|dynascope)\b", re.MULTILINE)
STALE = "stale: run again"


@dataclass(frozen=True, slots=True)
class Lens:
    line: int
    """From 1, in the present text."""
    act: Act


Activity = Literal["idle", "running"]
"""Of the program at a file."""


def lenses(path: str, text: str, view: FileView | None, activity: Activity) -> list[Lens]:
    """Lenses of a file that uses torch or that a report speaks of; none for other Python files."""
    if view is None and activity == "idle" and not USES_TORCH.search(text):
        return []
    return [*_file_lenses(path, view, activity), *(_function_lenses(view) if view is not None else ())]


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


def function_acts(view: FileView, function: FunctionFact) -> Iterator[Act]:
    """Everything a person can look at in one function; the lenses and the code actions alike."""
    if view.report is None:
        return
    detail = {"function": function.name}
    compiled = [entry for entry in function.entries if entry.status == "compiled"]
    if not compiled:
        yield from _uncompiled_acts(view, function)
        return
    kernels = kernels_of(view.report, function)
    yield Act(_function_summary(view.report, function), acts.SHOW_GRAPH, view.path, detail={**detail, "stage": "torch"})
    if kernels:
        yield Act("show compiled kernel" + "s" * (len(kernels) > 1), acts.SHOW_KERNEL, view.path, detail=detail)
    guards = sum(len(entry.guards) for entry in function.entries)
    if guards:
        yield Act(count(guards, "guard"), acts.SHOW_GRAPH, view.path, detail={**detail, "stage": "guards"})


def _function_lenses(view: FileView) -> Iterator[Lens]:
    for function in view.facts.functions:
        line = view.lines.line(function.span.line)
        if line is None:
            continue
        if view.stale:
            yield Lens(line, acts.compile_and_run(view.program, STALE))
        yield from (Lens(line, act) for act in function_acts(view, function))


def _file_lenses(path: str, view: FileView | None, activity: Activity) -> Iterator[Lens]:
    if activity == "running":
        yield Lens(1, Act("Dynascope: cancel the run", acts.CANCEL, path))
    else:
        yield Lens(1, acts.compile_and_run(path, "Dynascope: compile and run"))
    if view is None or view.report is None:
        return
    if view.stale:
        yield Lens(1, acts.compile_and_run(view.program, STALE))
    yield Lens(1, Act(summary(view.report), acts.SHOW_SUMMARY, view.path))


def _uncompiled_acts(view: FileView, function: FunctionFact) -> Iterator[Act]:
    reasons = {entry.reason.code: entry.reason for entry in function.entries if entry.reason is not None}
    for code in reasons:
        yield Act(f"not compiled: {code}", acts.SHOW_REASON, subject=code)
    if not reasons:
        yield Act("not compiled", acts.SHOW_SUMMARY, view.path)


def _function_summary(report: CompileReport, function: FunctionFact) -> str:
    breaks = breaks_of(function.entries)
    parts = [
        count(len(graphs_of(report, function)), "graph"),
        count(breaks, "break") if breaks else "",
        count(len(kernels_of(report, function)), "kernel"),
        count(_recompilations(function), "recompilation") if _recompilations(function) else "",
    ]
    return " · ".join(part for part in parts if part)


def _recompilations(function: FunctionFact) -> int:
    return sum(entry.recompiled is not None for entry in function.entries)
