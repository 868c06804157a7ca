"""The report as one HTML page that stands alone: the annotated source, the findings and the summary, as the terminal shows them,
a picture of each graph, whose parts lead to the source's lines, and the kernels.

html_page(report)  ->  "<!doctype html>..."
"""

from __future__ import annotations

import functools
import html
import os
import re
from collections.abc import Iterator

from dynascope.report.annotated import annotated_lines
from dynascope.report.facts import CompileReport, FunctionFact, GraphFact
from dynascope.report.lines import files_of
from dynascope.report.picture import MOST_LETTERS, Anchor, picture
from dynascope.report.span import Span
from dynascope.report.terminal import Line, Page, counted, guard_lines, report_lines
from dynascope.report.user_files import same_file

WIDTH = 130
PAGE_STYLE = """
:root { color-scheme: light dark; }
body { margin: 2rem; font-family: system-ui, sans-serif; }
"""
STYLE = """
.dynascope pre { font: 13px/1.45 ui-monospace, monospace; overflow-x: auto; }
.dynascope .bold { font-weight: 600; } .dynascope .dim { opacity: .6; }
.dynascope .red { color: light-dark(#b3261e, #ff8a80); } .dynascope .yellow { color: light-dark(#8a5a00, #ffcf6b); }
.dynascope .cyan { color: light-dark(#00677d, #6fd3ea); } .dynascope .green { color: light-dark(#1b6b32, #7ddb98); }
.dynascope .blue { color: light-dark(#1a57c2, #8ab4ff); }
.dynascope summary { cursor: pointer; margin: .6rem 0; }
.dynascope figure { margin: 1rem 0; overflow-x: auto; }
.dynascope svg a { text-decoration: none; }
.dynascope :target { background: light-dark(#fff3bf, #4a3f12); }
"""


def html_page(report: CompileReport) -> str:
    """No script, and nothing is loaded: it can be mailed, or kept with the results of a run."""
    name = html.escape(os.path.basename(report.program.file))
    environment = report.environment
    versions = html.escape(f"Python {environment.python}, torch {environment.torch}, {environment.device}")
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{name}: Dynascope</title>'
    return (
        f'<!doctype html>\n<html lang="en"><head>{head}<style>{PAGE_STYLE}</style></head>\n'
        f"<body><h1>{name}</h1><p>{versions}</p>\n{html_fragment(report)}</body></html>"
    )


def html_fragment(report: CompileReport, prefix: str = "") -> str:
    """The same without what is around it, for a page that holds several: `prefix` sets its anchors apart."""
    place = functools.partial(_identifier, report, prefix)
    source = "\n".join(_source(report, place))
    told = "\n".join(map(_line, report_lines(report, None, Page(WIDTH, notes=True))))
    return (
        f'<div class="dynascope" id="{prefix}top"><style>{STYLE}</style><pre>{source}</pre>\n<pre>{told}</pre>\n'
        f"{''.join(_graphs(report, place))}{'' if prefix else _guards(report)}{''.join(_kernels(report, place))}</div>"
    )


def _source(report: CompileReport, place: Anchor) -> Iterator[str]:
    """The annotated source; each line can be led to."""
    files = iter(files_of(report))
    file = ""
    for line in annotated_lines(report, WIDTH):
        number = re.fullmatch(r" *(\d+) \| ", line[1][0]) if len(line) > 1 else None
        if number is None:
            file = next(files, "") if line[0][0].startswith("---- ") else file
            yield _line(line)
        else:
            yield f'<span id="{place(Span(file, int(number[1])))}">{_line(line)}</span>'


def _identifier(report: CompileReport, prefix: str, target: Span | str) -> str:
    if isinstance(target, str):
        return f"{prefix}{target}"
    at = next((number for number, file in enumerate(files_of(report)) if same_file(file, target.file)), None)
    return prefix + (f"L{target.line}" if at == 0 else f"F{at}L{target.line}" if at is not None else "top")


def _graphs(report: CompileReport, place: Anchor) -> Iterator[str]:
    graphs = {graph.identifier: graph for graph in report.graphs}
    for function in report.functions:
        for entry in function.entries:
            if entry.graph in graphs:
                yield from _pictures(function, graphs[entry.graph], place)


def _pictures(function: FunctionFact, graph: GraphFact, place: Anchor) -> Iterator[str]:
    for phase in ("forward", "backward"):
        drawn = picture(graph, phase, lambda target: f"#{place(target)}", most_letters=MOST_LETTERS)
        if drawn:
            title = f"{html.escape(function.name)}: graph {graph.identifier}, {phase}"
            yield f"<details open><summary>{title}</summary><figure>{drawn}</figure></details>\n"


def _guards(report: CompileReport) -> str:
    """Folded: hundreds of lines, and seldom what a page is opened for."""
    count = sum(len(entry.guards) for function in report.functions for entry in function.entries)
    text = "\n".join(map(_line, guard_lines(report, WIDTH))).strip()
    return f"<details><summary>{counted(count, 'guard')}</summary><pre>{text}</pre></details>\n" if count else ""


def _kernels(report: CompileReport, place: Anchor) -> Iterator[str]:
    for kernel in report.kernels:
        title = f"{kernel.identifier} {html.escape(kernel.name)}, {kernel.phase}"
        text = html.escape(kernel.text, quote=False)
        yield f'<details id="{place(kernel.identifier)}"><summary>{title}</summary><pre>{text}</pre></details>\n'


def _line(line: Line) -> str:
    return "".join(_piece(text, style) for text, style in line).rstrip()


def _piece(text: str, style: str) -> str:
    shown = html.escape(text, quote=False)
    return f'<span class="{style}">{shown}</span>' if style and text.strip() else shown
