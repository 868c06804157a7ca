"""The tree beside the editor: each function of a run with its breaks, variants, graphs, stages, kernels, guards. Of a profiled run
functions, their graphs and kernels are there by what they cost, the dearest first.

tree(view)  ->  (Node("loss_of", "2 graphs · 1 break", children=(Node("break: `loss > 10.0` ...", place=...), ...)), ...)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from dynascope.report.costs import measured_seconds
from dynascope.report.facts import EntryFact, FunctionFact, GraphFact, KernelFact
from dynascope.report.findings import Finding, findings, function_line
from dynascope.report.lines import breaks_of
from dynascope.report.span import Span
from dynascope.report.stages import by_stage
from dynascope.report.variants import variants_of

from dynascope_server.ide import acts
from dynascope_server.ide.acts import Act
from dynascope_server.ide.file_facts import FileView, graphs_of, kernels_of
from dynascope_server.ide.findings_of_looks import function_cost, kernel_cost, run_cost
from dynascope_server.ide.graph_choices import STAGES
from dynascope_server.ide.numbers import count, size

ICONS = {"break": "debug-disconnect", "recompile": "sync", "uncompiled": "circle-slash", "limit": "warning"}


@dataclass(frozen=True, slots=True)
class Node:
    """`icon` is a codicon's name. A click goes to `place`, or does `act`."""

    label: str
    description: str = ""
    icon: str = ""
    place: Span | None = None
    act: Act | None = None
    children: tuple[Node, ...] = field(default=())


def tree(view: FileView) -> tuple[Node, ...]:
    found = findings(view.report)
    functions = sorted(view.report.functions, key=lambda function: -_seconds(view, function.entries))
    return tuple(_function(view, function, found) for function in functions)


def as_json(node: Node, place_of: Any) -> dict[str, Any]:
    """`place_of(span)` is what the client can go to, None where there is nothing."""
    return {
        "label": node.label,
        "description": node.description,
        "icon": node.icon,
        "place": place_of(node.place) if node.place is not None else None,
        "act": {"command": node.act.command, "detail": dict(node.act.detail)} if node.act is not None else None,
        "children": [as_json(child, place_of) for child in node.children],
    }


def _seconds(view: FileView, entries: Iterable[EntryFact]) -> float:
    """Of a profiled run, in their graphs; where it was not profiled 0: then the order is the program's."""
    return measured_seconds(view.report, [entry.graph for entry in entries if entry.graph]) or 0.0


def _function(view: FileView, function: FunctionFact, found: list[Finding] | tuple[Finding, ...]) -> Node:
    own = [finding for finding in found if finding.function == function.identifier]
    children = [_finding(finding) for finding in own]
    if any(graph.steps for graph in graphs_of(view.shown, function)):
        act = Act("", acts.SHOW_PICTURE, view.path, detail=_detail(function))
        children.append(Node("picture", "steps and the tensors between them", "graph", None, act))
    starts = variants_of(function)
    if len(starts) > 1:
        for variant in starts:
            parts = tuple(_entry(view, function, variant.entry))
            choose = Act("", acts.CHOOSE_VARIANT, view.path, detail=_detail(function, entry=variant.entry.identifier))
            children.append(Node(f"variant {variant.number}", variant.label, "versions", None, choose, parts))
        shown = {variant.entry.identifier for variant in starts}
        rest = [entry for entry in function.entries if entry.identifier not in shown]
    else:
        rest = list(function.entries)
    for entry in sorted(rest, key=lambda entry: -_seconds(view, [entry])):
        children += _entry(view, function, entry)
    state = "live" if function.identifier in view.live else "stale" if view.is_stale(function.identifier) else ""
    graphs = graphs_of(view.report, function)
    words = [
        state,
        count(len(graphs), "graph"),
        count(breaks, "break") if (breaks := breaks_of(function.entries)) else "",
        count(kernels, "kernel") if (kernels := len(kernels_of(view.report, function))) else "",
        run_cost(view.report, [graph.identifier for graph in graphs]),
        function_cost(view.report, [graph.identifier for graph in graphs]),
    ]
    description = " · ".join(word for word in words if word)
    return Node(function.name, description, "symbol-function", function_line(function), None, tuple(children))


def _finding(finding: Finding) -> Node:
    return Node(finding.message, finding.code, ICONS.get(finding.kind, "info"), finding.span)


def _entry(view: FileView, function: FunctionFact, entry: EntryFact) -> Iterator[Node]:
    graph = next((graph for graph in view.report.graphs if graph.identifier == entry.graph), None)
    where = f"line {entry.span.line}, after a break" if entry.region == "resume" else f"line {entry.span.line}"
    if graph is not None:
        words = f"{count(graph.operations, 'operation')} · {where}"
        children = (*_stages(view, graph), *_kernels(view, graph), *_guards(view, function, entry))
        yield Node(f"graph {graph.identifier}", words, "type-hierarchy", entry.span, None, children)
    else:
        yield from _guards(view, function, entry)


def _stages(view: FileView, graph: GraphFact) -> Iterator[Node]:
    for text in by_stage(graph.texts):
        act = Act("", acts.SHOW_GRAPH, view.path, detail={"graph": graph.identifier, "stage": text.stage})
        yield Node(STAGES.get(text.stage, text.stage), "", "list-tree", None, act)


def _kernels(view: FileView, graph: GraphFact) -> Iterator[Node]:
    own = (kernel for kernel in view.report.kernels if kernel.graph == graph.identifier)
    for kernel in sorted(own, key=lambda kernel: -(kernel.cost.seconds if kernel.cost is not None else 0.0)):
        act = Act("", acts.SHOW_KERNEL, view.path, detail={"kernel": kernel.identifier})
        yield Node(f"{kernel.identifier} {kernel.name}", _traffic(view, kernel), "symbol-method", None, act)


def _traffic(view: FileView, kernel: KernelFact) -> str:
    moved = (kernel.bytes_read or 0) + (kernel.bytes_written or 0)
    words = [kernel.phase, size(moved) if moved else "", kernel_cost(view.report, kernel)]
    return " · ".join(word for word in words if word)


def _guards(view: FileView, function: FunctionFact, entry: EntryFact) -> Iterator[Node]:
    if entry.guards:
        act = Act("", acts.SHOW_GRAPH, view.path, detail=_detail(function, stage="guards"))
        children = tuple(Node(guard.check, "", "shield", guard.span) for guard in entry.guards)
        yield Node(count(len(entry.guards), "guard"), "", "shield", None, act, children)


def _detail(function: FunctionFact, **more: str) -> dict[str, str | int]:
    return {"function": function.identifier, **more}
