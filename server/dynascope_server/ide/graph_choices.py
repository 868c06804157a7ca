"""What "Show Graph…" offers: every stage that each of a file's functions went through, in the variant that is shown.

attention · line 12                      a heading per compilation
  Torch IR          g0 · 14 operations
  ATen, forward     g0 · 14 operations
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from dynascope.report.facts import EntryFact, FunctionFact, GraphFact
from dynascope.report.stages import by_stage

from dynascope_server.ide.file_facts import FileView
from dynascope_server.ide.numbers import count

STAGES = {
    "torch": "Torch IR",
    "joint": "Joint graph (ATen)",
    "aten-forward": "ATen, forward",
    "aten-backward": "ATen, backward",
    "core-forward": "Core ATen, forward",
    "core-backward": "Core ATen, backward",
    "prims-forward": "Prims, forward",
    "prims-backward": "Prims, backward",
    "loops-forward": "Loops, forward",
    "loops-backward": "Loops, backward",
    "groups-forward": "Fusion groups, forward",
    "groups-backward": "Fusion groups, backward",
    "wrapper-forward": "Wrapper, forward",
    "wrapper-backward": "Wrapper, backward",
    "bytecode": "Bytecode",
    "rewritten-bytecode": "Rewritten bytecode",
    "rewritten-python": "Rewritten bytecode, as Python",
}


@dataclass(frozen=True, slots=True)
class GraphChoice:
    heading: str
    label: str
    description: str
    stage: str
    function: str
    """Identifier."""
    graph: str | None
    """None for a stage of the compilation that is no graph's, such as its bytecode."""


def graph_choices(view: FileView) -> list[dict[str, Any]]:
    """As JSON, in the order of the file's functions."""
    here = {unit.function.identifier for unit in view.facts.units}
    graphs = {graph.identifier: graph for graph in view.shown.graphs}
    return [
        asdict(choice)
        for function in view.shown.functions
        if function.identifier in here
        for entry in function.entries
        for choice in _of_entry(function, entry, graphs.get(entry.graph or ""))
    ]


def _of_entry(function: FunctionFact, entry: EntryFact, graph: GraphFact | None) -> Iterator[GraphChoice]:
    rest = f"line {entry.span.line}, after a break" if entry.region == "resume" else f"line {entry.span.line}"
    heading = f"{function.name} · {rest}"
    if graph is not None:
        words = f"{graph.identifier} · {count(graph.operations, 'operation')}"
        for text in by_stage(graph.texts):
            yield GraphChoice(
                heading, STAGES.get(text.stage, text.stage), words, text.stage, function.identifier, graph.identifier
            )
    for text in entry.texts:
        label = STAGES.get(text.stage, text.stage)
        yield GraphChoice(heading, label, entry.identifier, text.stage, function.identifier, None)
