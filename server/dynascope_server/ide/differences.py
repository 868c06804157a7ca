"""What two compilations of one function differ in, or two runs of one program: a unified diff of guards, graphs and kernels."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from dynascope.report.facts import CompileReport, EntryFact, FunctionFact
from dynascope.report.lines import ranked
from dynascope.report.variants import variants_of

CONTEXT = 3


def differences(report: CompileReport, one: EntryFact, other: EntryFact) -> str:
    return "\n".join(_differences(report, one, other)) + "\n"


def _differences(report: CompileReport, one: EntryFact, other: EntryFact) -> Iterator[str]:
    before, after = _texts(report, one), _texts(report, other)
    first, second = _title(report, one), _title(report, other)
    for title in dict.fromkeys((*before, *after)):
        lines = _compared(before.get(title, ""), after.get(title, ""), f"{title} of {first}", f"{title} of {second}")
        yield from lines or [f"# {title}: no difference"]
        yield ""


def _title(report: CompileReport, entry: EntryFact) -> str:
    for function in report.functions:
        for variant in variants_of(function, entry.place):
            if variant.entry.identifier == entry.identifier:
                return variant.title
    return entry.identifier


def differences_of_runs(before: CompileReport, after: CompileReport) -> str:
    """By function, in the order of the newer run; compilations of a function are taken in the order in which they were made."""
    return "\n".join(_of_runs(before, after)) + "\n"


def _of_runs(before: CompileReport, after: CompileReport) -> Iterator[str]:
    old = {function.name: function for function in before.functions}
    new = {function.name: function for function in after.functions}
    same = []
    for name in dict.fromkeys((*new, *old)):
        first, second = _texts_of(before, old.get(name)), _texts_of(after, new.get(name))
        is_same = True
        for title in dict.fromkeys((*first, *second)):
            lines = _compared(first.get(title, ""), second.get(title, ""), f"before: {name} {title}", f"now: {name} {title}")
            yield from [*lines, ""] if lines else ()
            is_same = is_same and not lines
        if is_same:
            same.append(f"# {name}: no difference")
    yield from same or ([] if old or new else ["# nothing was compiled in either run"])


def _texts_of(report: CompileReport, function: FunctionFact | None) -> dict[str, str]:
    found: dict[str, str] = {}
    for number, entry in enumerate(function.entries if function else (), 1):
        for title, text in _texts(report, entry).items():
            found[f"{title}, compilation {number}"] = text
    return found


def _compared(old: str, new: str, before: str, after: str) -> list[str]:
    return list(difflib.unified_diff(old.splitlines(), new.splitlines(), before, after, "", "", CONTEXT, ""))


def _texts(report: CompileReport, entry: EntryFact) -> dict[str, str]:
    graph = next((graph for graph in report.graphs if graph.identifier == entry.graph), None)
    texts = {"guards": "\n".join(guard.check for guard in ranked(list(entry.guards)))}
    if graph is not None:
        texts |= {text.stage: text.text for text in graph.texts if text.stage == "torch"}
    kernels = [kernel for kernel in report.kernels if kernel.graph == entry.graph and entry.graph is not None]
    texts["kernels"] = "\n\n".join(f"{kernel.name} ({kernel.phase})\n{kernel.text.rstrip()}" for kernel in kernels)
    return texts
