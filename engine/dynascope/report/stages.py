"""The texts of one stage, out of a report: for `dynascope show` and `Explanation.show`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from dynascope.report.facts import CompileReport, EntryFact, FunctionFact, GuardFact, LineLink, StageText
from dynascope.report.user_files import shown_path
from dynascope.report.variants import entry_title

STAGES: dict[str, tuple[str, ...]] = {
    "trace": ("trace", "bytecode-beside-rewritten", "rewritten-python"),
    "bytecode": ("bytecode", "rewritten-bytecode", "rewritten-python"),
    "torch": ("torch",),
    "joint": ("joint",),
    "aten": ("aten-forward", "aten-backward"),
    "core": ("core-forward", "core-backward"),
    "prims": ("prims-forward", "prims-backward"),
    "loops": ("loops-forward", "loops-backward"),
    "groups": ("groups-forward", "groups-backward"),
    "kernels": ("kernels",),
    "wrapper": ("wrapper-forward", "wrapper-backward"),
    "guards": ("guards",),
}
LANGUAGE_NAMES = {"cpp": "C++", "triton": "Triton"}
"""Of kernels, as a person writes them."""
LEVELS = frozenset({"joint", "aten", "core", "prims"})
"""What nothing may have run: made when it is asked for."""


def in_order(texts: Iterable[StageText]) -> tuple[StageText, ...]:
    """From the program to its kernels. Texts of one stage keep their order: the graph's parts."""
    order = list(dict.fromkeys(name for names in STAGES.values() for name in names))
    return tuple(sorted(texts, key=lambda text: order.index(text.stage)))


def stage_texts(report: CompileReport, stage: str, function: str = "") -> Iterator[str]:
    """The texts of a stage for every entry of the functions of that name (all functions when it is empty)."""
    graphs = {graph.identifier: graph for graph in report.graphs}
    for fact in report.functions:
        if not is_named(fact, function):
            continue
        for entry in fact.entries:
            title = f"# {entry_title(fact, entry)} ({shown_path(entry.span.file)}:{entry.span.line})"
            graph = graphs.get(entry.graph or "")
            for text in entry.texts + (graph.texts if graph else ()):
                if text.stage in STAGES[stage]:
                    yield f"{title}: {text.stage}\n{text.text.rstrip()}"
            yield from _derived_texts(report, entry, stage, title)


def by_stage(texts: Iterable[StageText]) -> tuple[StageText, ...]:
    """Each stage once, with its parts below each other where a graph was made in several."""
    found: dict[str, list[StageText]] = {}
    for text in texts:
        found.setdefault(text.stage, []).append(text)
    return tuple(parts[0] if len(parts) == 1 else _whole(parts) for parts in found.values())


def _whole(parts: Sequence[StageText]) -> StageText:
    lines: list[str] = []
    links: list[LineLink] = []
    for number, part in enumerate(parts, 1):
        text = part.text if number == 1 else part.text.replace(_FUTURE, "", 1)
        heading = [f"# part {number} of {len(parts)} of the graph", ""]
        before = len(lines) + len(heading) - (part.text.count("\n") - text.count("\n"))
        links += [replace(link, line=link.line + before) for link in part.links]
        lines += [*heading, *text.rstrip("\n").split("\n"), ""]
    return replace(parts[0], text="\n".join(lines), links=tuple(links))


def one_text(texts: Iterable[str]) -> str:
    """All of them below each other. Graphs are programs, and Python takes a `from __future__` only before anything else: said once."""
    return "\n\n".join(text if place == 0 else text.replace(_FUTURE, "", 1) for place, text in enumerate(texts))


_FUTURE = "from __future__ import annotations\n\n"


def _derived_texts(report: CompileReport, entry: EntryFact, stage: str, title: str) -> Iterator[str]:
    if stage == "guards":
        yield "\n".join([f"{title}: guards", *map(_guard_line, entry.guards)])
    if stage == "kernels":
        for kernel in report.kernels:
            if kernel.graph == entry.graph and kernel.graph is not None:
                often = f", {kernel.launches} times a call" if kernel.launches > 1 else ""
                yield f"{title}: {kernel.identifier} ({kernel.phase}, {LANGUAGE_NAMES[kernel.language]}{often})\n{kernel.text.rstrip()}"


def _guard_line(guard: GuardFact) -> str:
    return f"{guard.check}    # {shown_path(guard.span.file)}:{guard.span.line}" if guard.span else guard.check


def followed_inside(report: CompileReport, function: str) -> list[str]:
    """Names of the compiled functions in whose graphs a function of this name was followed."""
    graphs = {
        graph.identifier
        for graph in report.graphs
        if any(_last(frame.function) == _last(function) for value in graph.values for frame in value.stack)
    }
    return [fact.name for fact in report.functions if any(entry.graph in graphs for entry in fact.entries)]


def _last(name: str) -> str:
    return name.rsplit(".", 1)[-1]


def is_named(fact: FunctionFact, function: str) -> bool:
    return goes_by(fact.name, function)


def goes_by(qualified_name: str, wanted: str) -> bool:
    """Whether a function is meant: by its qualified name, by the last part of that, or, a module's `forward`, by its class; by "" all."""
    return wanted in ("", qualified_name, qualified_name.rpartition(".")[2], qualified_name.removesuffix(".forward"))
