"""How `dynascope run` shows a report: the format, where it goes, and what counts as a failure.

write_output(report, options, path)   prints or writes it
failure(report, ["break"])            "2 breaks", or an empty string
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Collection
from pathlib import Path

from dynascope.report.facts import CompileReport
from dynascope.report.findings import Finding, findings
from dynascope.report.json_format import to_json
from dynascope.report.terminal import Page, counted, is_shown, print_report, report_text
from dynascope.report.times import times_text


def _text(report: CompileReport, page: Page) -> str:
    return report_text(report, page)


def _json(report: CompileReport, page: Page) -> str:
    return json.dumps(to_json(report), ensure_ascii=False)


def _sarif(report: CompileReport, page: Page) -> str:
    from dynascope.command import explain
    from dynascope.report.sarif import sarif

    return json.dumps(sarif(report, explain.page), ensure_ascii=False, indent=2)


def _github(report: CompileReport, page: Page) -> str:
    from dynascope.report.github import github_lines

    return "\n".join(github_lines(report))


def _html(report: CompileReport, page: Page) -> str:
    from dynascope.report.html_page import html_page

    return html_page(report)


FORMATS: dict[str, Callable[[CompileReport, Page], str]] = {
    "text": _text,
    "json": _json,
    "sarif": _sarif,
    "github": _github,
    "html": _html,
}

FAILURES: dict[str, tuple[str, Callable[[Finding], bool]]] = {
    "break": ("break", lambda finding: finding.kind == "break" and is_shown(finding)),
    "recompile": ("recompilation", lambda finding: finding.kind in ("recompile", "limit") and is_shown(finding)),
    # Behind the limit what is new runs uncompiled.
    "uncompiled": ("uncompiled function", lambda finding: finding.kind == "uncompiled" or finding.code == "recompile-limit"),
}


def write_output(report: CompileReport, options: argparse.Namespace, path: Path) -> None:
    """Text goes to standard error, beside the program's own output; other formats to standard output, to be piped: what the program prints
    went to standard error then, but for GitHub's lines, which are found among others."""
    page = Page(guards=options.guards, annotate=options.annotate)
    if options.output is not None:
        Path(options.output).write_text(FORMATS[options.output_format](report, page) + "\n", encoding="utf-8")
    elif options.output_format == "text":
        print_report(report, sys.stderr, path, options.guards, options.annotate)
        if options.times:
            print(times_text(report), file=sys.stderr)
    else:
        print(FORMATS[options.output_format](report, page))


def failure(report: CompileReport, kinds: Collection[str]) -> str:
    """What of these kinds the run has, in words."""
    found = findings(report)
    told = ["nothing was compiled"] if "uncompiled" in kinds and not report.functions else []
    for kind in dict.fromkeys(kinds):
        noun, counts = FAILURES[kind]
        number = sum(map(counts, found))
        told += [counted(number, noun)] if number else []
    return ", ".join(told)
