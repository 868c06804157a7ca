"""The findings as workflow commands of GitHub Actions, which show them on the lines of a pull request.

::warning file=model.py,line=14,col=8,title=data-dependent-branch::`if y.sum() > 0` needs ...
"""

from __future__ import annotations

import linecache
from collections.abc import Iterator

from dynascope.report.facts import CompileReport
from dynascope.report.findings import Finding, calm_findings
from dynascope.report.span import Span
from dynascope.report.terminal import is_shown
from dynascope.report.user_files import checkout_path

LEVELS = {"error": "error", "warning": "warning", "information": "notice", "hint": "notice"}


def github_lines(report: CompileReport) -> Iterator[str]:
    for finding in calm_findings(report):
        if is_shown(finding) or finding.span is None:
            yield _command(finding)


def _command(finding: Finding) -> str:
    fields = {}
    if finding.span is not None:
        fields["file"] = checkout_path(finding.span.file) or finding.span.file
        fields["line"], fields["endLine"] = str(finding.span.line), str(finding.span.last_line)
        fields |= _columns(finding.span)
    fields["title"] = finding.code
    words = ",".join(f"{name}={_escaped(value, ':,')}" for name, value in fields.items())
    return f"::{LEVELS[finding.severity]} {words}::{_escaped(f'{finding.message} {finding.remedy}'.strip(), '')}"


def _columns(span: Span) -> dict[str, str]:
    """The runner takes columns on one line only; they count characters, from 1."""
    if span.column is None or span.end_column is None or span.line != span.last_line:
        return {}
    text = linecache.getline(span.file, span.line).encode()
    first, last = (len(text[:column].decode(errors="replace")) for column in (span.column, span.end_column))
    return {"col": f"{first + 1}", "endColumn": f"{last + 1}"}


def _escaped(text: str, more: str) -> str:
    """As the runner reads them back: percent signs and line ends always, separators inside a field."""
    for character in "%\r\n" + more:
        text = text.replace(character, f"%{ord(character):02X}")
    return text
