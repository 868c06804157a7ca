"""What two compilations of one function differ in: a unified diff of their guards, graphs and kernels."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from dynascope.report.facts import CompileReport, EntryFact
from dynascope.report.lines import ranked

CONTEXT = 3


def differences(report: CompileReport, one: EntryFact, other: EntryFact) -> str:
    return "\n".join(_differences(report, one, other)) + "\n"


def _differences(report: CompileReport, one: EntryFact, other: EntryFact) -> Iterator[str]:
    before, after = _texts(report, one), _texts(report, other)
    for title in dict.fromkeys((*before, *after)):
        old, new = before.get(title, ""), after.get(title, "")
        lines = list(
            difflib.unified_diff(
                old.splitlines(),
                new.splitlines(),
                f"{one.identifier} {title}",
                f"{other.identifier} {title}",
                "",
                "",
                CONTEXT,
                "",
            )
        )
        yield from lines or [f"# {title}: no difference"]
        yield ""


def _texts(report: CompileReport, entry: EntryFact) -> dict[str, str]:
    graph = next((graph for graph in report.graphs if graph.identifier == entry.graph), None)
    texts = {"guards": "\n".join(guard.check for guard in ranked(list(entry.guards)))}
    if graph is not None:
        texts |= {text.stage: text.text for text in graph.texts if text.stage == "torch"}
    kernels = [kernel for kernel in report.kernels if kernel.graph == entry.graph and entry.graph is not None]
    texts["kernels"] = "\n\n".join(f"{kernel.name} ({kernel.phase})\n{kernel.text.rstrip()}" for kernel in kernels)
    return texts
