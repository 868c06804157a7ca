"""The report as one HTML page that stands alone: the findings, the annotated source and the summary, as the terminal shows them.

html_page(report)  ->  "<!doctype html>..."
"""

from __future__ import annotations

import html
import os

from dynascope.report.facts import CompileReport
from dynascope.report.terminal import Line, Page, report_lines

WIDTH = 130
STYLE = """
:root { color-scheme: light dark; }
body { margin: 2rem; font-family: system-ui, sans-serif; }
pre { font: 13px/1.45 ui-monospace, monospace; overflow-x: auto; }
.bold { font-weight: 600; } .dim { opacity: .6; }
.red { color: light-dark(#b3261e, #ff8a80); } .yellow { color: light-dark(#8a5a00, #ffcf6b); }
.cyan { color: light-dark(#00677d, #6fd3ea); } .green { color: light-dark(#1b6b32, #7ddb98); }
.blue { color: light-dark(#1a57c2, #8ab4ff); }
"""


def html_page(report: CompileReport) -> str:
    """No script, and nothing is loaded: it can be mailed, or kept with the results of a run."""
    name = html.escape(os.path.basename(report.program.file))
    environment = report.environment
    versions = html.escape(f"Python {environment.python}, torch {environment.torch}, {environment.device}")
    body = "\n".join(map(_line, report_lines(report, None, Page(WIDTH, guards=True, annotate=True))))
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{name}: Dynascope</title>'
    return (
        f'<!doctype html>\n<html lang="en"><head>{head}<style>{STYLE}</style></head>\n'
        f"<body><h1>{name}</h1><p>{versions}</p>\n<pre>{body}</pre></body></html>"
    )


def _line(line: Line) -> str:
    return "".join(_piece(text, style) for text, style in line).rstrip()


def _piece(text: str, style: str) -> str:
    shown = html.escape(text, quote=False)
    return f'<span class="{style}">{shown}</span>' if style and text.strip() else shown
