"""The findings as SARIF 2.1.0, which code hosts and editors read.

sarif(report)  ->  {"version": "2.1.0", "runs": [{"tool": ..., "results": [...]}]}
"""

from __future__ import annotations

import linecache
import os
from pathlib import Path
from typing import Any

from dynascope.report.facts import CompileReport
from dynascope.report.findings import Finding, calm_findings
from dynascope.report.span import Span

LEVELS = {"error": "error", "warning": "warning", "information": "note", "hint": "note"}
SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def sarif(report: CompileReport) -> dict[str, Any]:
    """Places relative to the present folder where they lie in it. What concerns the machine is no result, but a notification."""
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
                        "rules": [{"id": code} for code in codes],
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
    relative = os.path.relpath(file)
    return Path(os.path.abspath(file)).as_uri() if relative.startswith("..") else Path(relative).as_posix()


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
