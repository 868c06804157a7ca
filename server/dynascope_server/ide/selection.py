"""Which document answers "show the kernel" and "show the graph", for a function, a line, or the file as a whole.

choose_kernel(view, {"line": 11})  ->  Choice("k2/layer_norm.cpp", document line 7)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dynascope.report.facts import FunctionFact, KernelFact

from dynascope_server.ide.documents import (
    Document,
    build,
    find_function,
    find_kernel,
    kernel_document_name,
    kernels_document_name,
    line_for,
    picture_document_name,
    stage_document_name,
    stage_of_function,
)
from dynascope_server.ide.file_facts import FileView, function_at, graphs_of, kernels_of


@dataclass(frozen=True, slots=True)
class Choice:
    document: Document
    line: int | None = None
    """The line of the document to show, from 1."""


@dataclass(frozen=True, slots=True)
class NoChoice:
    message: str


Detail = Mapping[str, Any]


def choose_kernel(view: FileView, detail: Detail) -> Choice | NoChoice:
    """By kernel, by line (counted from 0 in the present text), by function; else the first function's with kernels."""
    old_line = _old_line(view, detail)
    shown = view.shown
    named = find_kernel(view.report, str(detail.get("kernel", "")))
    here = view.facts.kernels.get(old_line, []) if old_line else []
    kernel = named or max(here, key=_work, default=None)
    if kernel is not None:
        return _choice(view, kernel_document_name(kernel), old_line)
    function = _function(view, detail, old_line)
    if function is None and (old_line or detail.get("function")):
        return NoChoice("No compiled function is here: put the cursor into one.")
    candidates = [function] if function else [f for f in shown.functions if kernels_of(shown, f)]
    what = kernels_document_name(shown, candidates[0]) if candidates else None
    if what is None:
        return NoChoice(f"`{function.name}` has no kernel of its own." if function else "This run made no kernels.")
    return _choice(view, what, old_line)


def _work(kernel: KernelFact) -> tuple[bool, float, int, int]:
    """Of the kernels of a line the one that does most of its work is shown, forward: not the one that counts batches."""
    seconds = kernel.cost.seconds if kernel.cost is not None else 0.0
    moved = (kernel.bytes_read or 0) + (kernel.bytes_written or 0)
    return kernel.phase == "forward", seconds, moved, len(kernel.operations)


def choose_graph(view: FileView, detail: Detail) -> Choice | NoChoice:
    """A stage (default `torch`) by graph, by line, by function; else the first function that has this stage."""
    stage = str(detail.get("stage") or "torch")
    old_line = _old_line(view, detail)
    if identifier := detail.get("graph"):
        what = _stage_of_graph(view, str(identifier), stage)
        return _choice(view, what, old_line) if what else NoChoice(f"Graph {identifier} has no stage `{stage}`.")
    function = _function(view, detail, old_line)
    if function is None and (old_line or detail.get("function")):
        return NoChoice("No compiled function is here: put the cursor into one.")
    shown = view.shown
    candidates = [function] if function else list(shown.functions)
    here = _graphs_on(view, old_line)
    names = (stage_of_function(shown, candidate, stage, here) for candidate in candidates)
    what = next((name for name in names if name), None)
    if what is None:
        subject = f"`{function.name}`" if function else "This run"
        return NoChoice(f"{subject} has no stage `{stage}`; it has {_stages(view, candidates)}.")
    return _choice(view, what, old_line)


def choose_picture(view: FileView, detail: Detail) -> Choice | NoChoice:
    """Of the function named or at the line; else of the first that has a graph."""
    old_line = _old_line(view, detail)
    function = _function(view, detail, old_line) or next((f for f in view.shown.functions if graphs_of(view.shown, f)), None)
    if function is None:
        return NoChoice("No compiled function is here: put the cursor into one.")
    return _choice(view, picture_document_name(function), None)


def _choice(view: FileView, what: str, old_line: int | None) -> Choice | NoChoice:
    document = build(view.report, what, view.choice)
    if document is None:
        return NoChoice(f"There is no document `{what}` in the newest results.")
    return Choice(document, line_for(document, view.path, old_line) if old_line else None)


def _old_line(view: FileView, detail: Detail) -> int | None:
    line = detail.get("line")
    return view.old_line(line + 1) or line + 1 if isinstance(line, int) else None


def _function(view: FileView, detail: Detail, old_line: int | None) -> FunctionFact | None:
    """With the entries of the chosen variant only."""
    name = detail.get("function")
    if not name:
        function = function_at(view.facts, old_line) if old_line else None
        name = function.identifier if function else ""
    here = {unit.function.identifier for unit in view.facts.units}
    functions = view.shown.functions
    own = [function for function in functions if function.identifier in here]
    inlined = next((unit.function.identifier for unit in view.facts.units if unit.is_inlined and unit.name == name), "")
    return find_function((*own, *functions), str(name)) or (find_function(functions, inlined) if inlined else None)


def _graphs_on(view: FileView, old_line: int | None) -> frozenset[str]:
    """The graphs that compute something on a line: of a function with breaks, the part that the line lies in."""
    if old_line is None:
        return frozenset()
    values = set(map(id, view.facts.values.get(old_line, ())))
    return frozenset(
        graph.identifier for graph in view.report.graphs if any(id(value) in values for value in graph.values)
    )


def _stage_of_graph(view: FileView, identifier: str, stage: str) -> str | None:
    graphs = (graph for graph in view.report.graphs if graph.identifier == identifier)
    pairs = ((graph, text) for graph in graphs for text in graph.texts if text.stage == stage)
    return next((stage_document_name(graph, text) for graph, text in pairs), None)


def _stages(view: FileView, functions: list[FunctionFact]) -> str:
    graphs = {entry.graph for function in functions for entry in function.entries}
    holders: list[Any] = [graph for graph in view.report.graphs if graph.identifier in graphs]
    holders += [entry for function in functions for entry in function.entries]
    return ", ".join(f"`{name}`" for name in dict.fromkeys(t.stage for h in holders for t in h.texts)) or "none"
