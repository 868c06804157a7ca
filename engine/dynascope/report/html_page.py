"""The report as one HTML page that stands alone: the annotated source, the findings and the summary, as the terminal shows them,
a picture of each graph, whose parts lead to the source's lines, and the kernels.

html_page(report)  ->  "<!doctype html>..."
"""

from __future__ import annotations

import html
import os
import re
from collections.abc import Iterator

from dynascope.report.annotated import annotated_lines
from dynascope.report.facts import CompileReport, FunctionFact, GraphFact
from dynascope.report.lines import files_of
from dynascope.report.picture import picture
from dynascope.report.span import Span
from dynascope.report.terminal import Line, Page, report_lines
from dynascope.report.user_files import same_file

WIDTH = 130
STYLE = """
:root { color-scheme: light dark; }
body { margin: 2rem; font-family: system-ui, sans-serif; }
pre { font: 13px/1.45 ui-monospace, monospace; overflow-x: auto; }
.bold { font-weight: 600; } .dim { opacity: .6; }
.red { color: light-dark(#b3261e, #ff8a80); } .yellow { color: light-dark(#8a5a00, #ffcf6b); }
.cyan { color: light-dark(#00677d, #6fd3ea); } .green { color: light-dark(#1b6b32, #7ddb98); }
summary { cursor: pointer; margin: .6rem 0; }
figure { margin: 1rem 0; overflow-x: auto; }
svg a { text-decoration: none; }
:target { background: light-dark(#fff3bf, #4a3f12); }
.blue { color: light-dark(#1a57c2, #8ab4ff); }
"""


def html_page(report: CompileReport) -> str:
    """No script, and nothing is loaded: it can be mailed, or kept with the results of a run."""
    name = html.escape(os.path.basename(report.program.file))
    environment = report.environment
    versions = html.escape(f"Python {environment.python}, torch {environment.torch}, {environment.device}")
    page = Page(WIDTH, guards=True)
    source = "\n".join(_source(report))
    told = "\n".join(map(_line, report_lines(report, None, page)))
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{name}: Dynascope</title>'
    return (
        f'<!doctype html>\n<html lang="en"><head>{head}<style>{STYLE}</style></head>\n'
        f'<body><h1 id="top">{name}</h1><p>{versions}</p>\n<pre>{source}</pre>\n<pre>{told}</pre>\n'
        f"{''.join(_graphs(report))}{''.join(_kernels(report))}</body></html>"
    )


def _source(report: CompileReport) -> Iterator[str]:
    """The annotated source; each line can be led to."""
    files = iter(files_of(report))
    file = ""
    for line in annotated_lines(report, WIDTH):
        number = re.fullmatch(r" *(\d+) \| ", line[1][0]) if len(line) > 1 else None
        if number is None:
            file = next(files, "") if line[0][0].startswith("---- ") else file
            yield _line(line)
        else:
            yield f'<span id="{_identifier(report, Span(file, int(number[1])))}">{_line(line)}</span>'


def _identifier(report: CompileReport, target: Span | str) -> str:
    if isinstance(target, str):
        return target
    at = next((number for number, file in enumerate(files_of(report)) if same_file(file, target.file)), None)
    return f"L{target.line}" if at == 0 else f"F{at}L{target.line}" if at is not None else "top"


def _graphs(report: CompileReport) -> Iterator[str]:
    graphs = {graph.identifier: graph for graph in report.graphs}
    for function in report.functions:
        for entry in function.entries:
            if entry.graph in graphs:
                yield from _pictures(report, function, graphs[entry.graph])


def _pictures(report: CompileReport, function: FunctionFact, graph: GraphFact) -> Iterator[str]:
    for phase in ("forward", "backward"):
        drawn = picture(graph, phase, lambda target: f"#{_identifier(report, target)}")
        if drawn:
            title = f"{html.escape(function.name)}: graph {graph.identifier}, {phase}"
            yield f"<details open><summary>{title}</summary><figure>{drawn}</figure></details>\n"


def _kernels(report: CompileReport) -> Iterator[str]:
    for kernel in report.kernels:
        title = f"{kernel.identifier} {html.escape(kernel.name)}, {kernel.phase}"
        text = html.escape(kernel.text, quote=False)
        yield f'<details id="{kernel.identifier}"><summary>{title}</summary><pre>{text}</pre></details>\n'


def _line(line: Line) -> str:
    return "".join(_piece(text, style) for text, style in line).rstrip()


def _piece(text: str, style: str) -> str:
    shown = html.escape(text, quote=False)
    return f'<span class="{style}">{shown}</span>' if style and text.strip() else shown
