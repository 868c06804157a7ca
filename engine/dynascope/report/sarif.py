"""The findings as SARIF 2.1.0, which code hosts and editors read.

sarif(report)  ->  {"version": "2.1.0", "runs": [{"tool": ..., "results": [...]}]}
"""

from __future__ import annotations

import linecache
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

from dynascope.report.facts import CompileReport
from dynascope.report.findings import Finding, calm_findings
from dynascope.report.span import Span
from dynascope.report.user_files import checkout_path

LEVELS = {"error": "error", "warning": "warning", "information": "note", "hint": "note"}
SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def sarif(report: CompileReport, page: Callable[[str], str] | None = None) -> dict[str, Any]:
    """Places relative to the repository where they lie in it. What concerns the machine is no result, but a notification.
    `page` has the page of a reason, as Markdown, for those who show a rule's help."""
    found = calm_findings(report)
    placed = [(finding, finding.span) for finding in found if finding.span is not None]
    codes = list(dict.fromkeys(finding.code for finding, _ in placed))
    return {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "dynascope",
                        "version": report.environment.dynascope,
                        "rules": [_rule(code, page) for code in codes],
                    }
                },
                "columnKind": "utf16CodeUnits",
                "invocations": [
                    {
                        "executionSuccessful": report.program.exit_code == 0,
                        "toolExecutionNotifications": [
                            {"level": LEVELS[f.severity], "message": {"text": _words(f)}}
                            for f in found
                            if f.span is None
                        ],
                    }
                ],
                "results": [_result(finding, place, codes.index(finding.code)) for finding, place in placed],
            }
        ],
    }


def _rule(code: str, page: Callable[[str], str] | None) -> dict[str, Any]:
    if page is None:
        return {"id": code}
    text = page(code)
    title = text.splitlines()[0].lstrip("# ").removeprefix(f"{code}: ")
    return {"id": code, "shortDescription": {"text": title}, "help": {"text": text, "markdown": text}}


def _result(finding: Finding, place: Span, rule: int) -> dict[str, Any]:
    result: dict[str, Any] = {
        "ruleId": finding.code,
        "ruleIndex": rule,
        "level": LEVELS[finding.severity],
        "message": {"text": _words(finding)},
        "locations": [_location(place)],
    }
    callers = [frame for frame in finding.stack if frame.span != finding.span]
    if callers:
        result["relatedLocations"] = [
            {**_location(frame.span), "message": {"text": f"in {frame.function}"}} for frame in reversed(callers)
        ]
    return result


def _words(finding: Finding) -> str:
    return " ".join(part for part in (finding.message, finding.remedy) if part)


def _location(span: Span) -> dict[str, Any]:
    return {"physicalLocation": {"artifactLocation": {"uri": _uri(span.file)}, "region": _region(span)}}


def _uri(file: str) -> str:
    path = checkout_path(file)
    return Path(os.path.abspath(file)).as_uri() if path is None else quote(os.fsencode(path))


def _region(span: Span) -> dict[str, int]:
    region = {"startLine": span.line, "endLine": span.last_line}
    if span.column is not None and span.end_column is not None:
        region["startColumn"] = _units(span.file, span.line, span.column) + 1
        region["endColumn"] = _units(span.file, span.last_line, span.end_column) + 1
    return region


def _units(file: str, line: int, column: int) -> int:
    """UTF-16 units before a column that counts UTF-8 bytes."""
    text = linecache.getline(file, line).encode()[:column].decode(errors="replace")
    return len(text.encode("utf-16-le")) // 2
