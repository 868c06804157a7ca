"""The documents that the server makes from a report: kernels, graphs, guards, the whole run on one page.

build(report, "k2/layer_norm.cpp")  ->  Document(text of the kernel, links from its lines to the user's)
"""

from __future__ import annotations

import html
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from dynascope.report.facts import CompileReport, EntryFact, FunctionFact, GraphFact, KernelFact, LineLink, StageText
from dynascope.report.picture import picture
from dynascope.report.span import Span
from dynascope.report.stages import by_stage
from dynascope.report.variants import one_variant

from dynascope_server.ide.addresses import extension, file_stem, language_of
from dynascope_server.ide.differences import differences
from dynascope_server.ide.file_facts import entries, graphs_of, kernels_of
from dynascope_server.ide.findings_of_looks import kernel_cost
from dynascope_server.ide.numbers import size
from dynascope_server.ide.summary import guards_page, summary_page

SUMMARY = "summary.md"
PREVIOUS = "since-the-run-before.diff"
NO_PICTURE = "There is no picture: graphs of other backends, and of an edit that was not run yet, have no steps of ours."
COMMENTS = {"cpp": "//", "triton": "#"}


@dataclass(frozen=True, slots=True)
class Document:
    what: str
    text: str
    links: tuple[LineLink, ...] = ()

    @property
    def language(self) -> str:
        return language_of(self.what)


def build(report: CompileReport, what: str, choice: Collection[str] = ()) -> Document | None:
    """The document at `what` (the address without its owner); None where this report has no such thing.

    Pages of a whole function show one variant of it: the one chosen, or used last.
    """
    for pattern, make in BUILDERS:
        match = pattern.fullmatch(what)
        if match:
            of_one = make in (_kernels, _picture)
            return make(one_variant(report, choice) if of_one else report, what, *match.groups())
    return None


def kernel_document_name(kernel: KernelFact) -> str:
    return f"{kernel.identifier}/{file_stem(kernel.name)}{extension(kernel.language)}"


def kernels_document_name(report: CompileReport, function: FunctionFact) -> str | None:
    """All kernels of a function on one page; the kernel's own page where there is one only."""
    kernels = kernels_of(report, function)
    if len(kernels) == 1:
        return kernel_document_name(kernels[0])
    return f"{function.identifier}/kernels{extension(kernels[0].language)}" if kernels else None


def picture_document_name(function: FunctionFact) -> str:
    return f"{function.identifier}/picture.html"


def stage_document_name(owner: GraphFact | EntryFact, stage: StageText) -> str:
    return f"{owner.identifier}/{file_stem(stage.stage)}{extension(stage.language)}"


def guards_document_name(entry: EntryFact) -> str:
    return f"{entry.identifier}/guards.md"


def differences_document_name(one: EntryFact, other: EntryFact) -> str:
    return f"{one.identifier}/to-{other.identifier}.diff"


def stage_of_function(
    report: CompileReport, function: FunctionFact, stage: str, preferred: Collection[str] = ()
) -> str | None:
    """The first document of a stage (or `guards`) among a function's entries and graphs, of a preferred graph if any."""
    made = sorted(function.entries, key=lambda entry: entry.graph not in preferred)
    if stage == "guards":
        return next((guards_document_name(entry) for entry in made if entry.guards), None)
    graphs = sorted(graphs_of(report, function), key=lambda graph: graph.identifier not in preferred)
    holders = (*graphs, *made)
    names = (stage_document_name(holder, text) for holder in holders for text in holder.texts if text.stage == stage)
    return next(names, None)


def find_kernel(report: CompileReport, identifier: str) -> KernelFact | None:
    return next((kernel for kernel in report.kernels if kernel.identifier == identifier), None)


def find_function(functions: Iterable[FunctionFact], name: str) -> FunctionFact | None:
    """By identifier, full name, or the last part of the name, in this order."""
    tests = (lambda f: f.identifier == name, lambda f: f.name == name, lambda f: f.name.rsplit(".", 1)[-1] == name)
    known = tuple(functions)
    return next((function for test in tests for function in known if test(function)), None)


def line_for(document: Document, file: str, line: int) -> int | None:
    """The first line of the document that came from the user's line."""
    return next((link.line for link in document.links if (link.span.file, link.span.line) == (file, line)), None)


def _summary(report: CompileReport, what: str) -> Document:
    text, links = summary_page(report)
    return Document(what, text, links)


def _kernel(report: CompileReport, what: str, identifier: str) -> Document | None:
    kernel = find_kernel(report, identifier)
    return Document(what, kernel.text, kernel.links) if kernel else None


def _kernels(report: CompileReport, what: str, identifier: str) -> Document | None:
    function = next((function for function in report.functions if function.identifier == identifier), None)
    if function is None:
        return None
    lines: list[str] = []
    links: list[LineLink] = []
    for kernel in kernels_of(report, function):
        lines.append(_kernel_heading(kernel))
        links += [replace(link, line=link.line + len(lines)) for link in kernel.links]
        lines += [*kernel.text.rstrip("\n").split("\n"), ""]
    return Document(what, "\n".join(lines), tuple(links)) if lines else None


def _picture(report: CompileReport, what: str, identifier: str) -> Document | None:
    """Of each graph of a function, both ways. A link's line is that of the run, as the picture's parts name it."""
    function = next((function for function in report.functions if function.identifier == identifier), None)
    if function is None:
        return None
    drawn, places = [], dict[Span, None]()
    for graph in graphs_of(report, function):
        places |= dict.fromkeys(o.span for step in graph.steps for o in step.operations if o.span is not None)
        for phase in ("forward", "backward"):
            if shown := picture(graph, phase, costs=_costs(report)):
                drawn.append(f"<h2>{html.escape(function.name)} · graph {graph.identifier}, {phase}</h2>\n<figure>{shown}</figure>\n")
    text = "".join(drawn) or f"<p>{NO_PICTURE}</p>\n"
    return Document(what, text, tuple(LineLink(span.line, span) for span in places))


def _costs(report: CompileReport) -> dict[str, str]:
    costs = {kernel.identifier: kernel_cost(report, kernel) for kernel in report.kernels}
    return {identifier: words for identifier, words in costs.items() if words}


def _kernel_heading(kernel: KernelFact) -> str:
    traffic = [
        f"{verb} {size(amount)}"
        for verb, amount in (("reads", kernel.bytes_read), ("writes", kernel.bytes_written))
        if amount is not None
    ]
    often = [f"{kernel.launches} times a call"] if kernel.launches > 1 else []
    return f"{COMMENTS[kernel.language]} {' · '.join([kernel.identifier, kernel.name, kernel.phase, *often, *traffic])}"


def _graph_stage(report: CompileReport, what: str, identifier: str) -> Document | None:
    return _stage((graph for graph in report.graphs if graph.identifier == identifier), what)


def _entry_stage(report: CompileReport, what: str, identifier: str) -> Document | None:
    return _stage((entry for _, entry in entries(report) if entry.identifier == identifier), what)


def _stage(holders: Iterable[GraphFact | EntryFact], what: str) -> Document | None:
    texts = ((holder, text) for holder in holders for text in by_stage(holder.texts))
    found = next((text for holder, text in texts if stage_document_name(holder, text) == what), None)
    return Document(what, found.text, found.links) if found else None


def _guards(report: CompileReport, what: str, identifier: str) -> Document | None:
    found = next((pair for pair in entries(report) if pair[1].identifier == identifier), None)
    if found is None:
        return None
    text, links = guards_page(*found)
    return Document(what, text, links)


def _differences(report: CompileReport, what: str, one: str, other: str) -> Document | None:
    found = {entry.identifier: entry for _, entry in entries(report)}
    if one not in found or other not in found:
        return None
    return Document(what, differences(report, found[one], found[other]))


BUILDERS = tuple(
    (re.compile(pattern), make)
    for pattern, make in (
        (r"summary\.md", _summary),
        (r"(k\d+)/[^/]+", _kernel),
        (r"(f\d+)/kernels\.\w+", _kernels),
        (r"(f\d+)/picture\.html", _picture),
        (r"(f\d+\.e\d+)/guards\.md", _guards),
        (r"(f\d+\.e\d+)/to-(f\d+\.e\d+)\.diff", _differences),
        (r"(f\d+\.e\d+)/[^/]+", _entry_stage),
        (r"(g\d+)/[^/]+", _graph_stage),
    )
)
