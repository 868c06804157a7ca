"""The report on disk as a report, or in words why it is none."""

from __future__ import annotations

import json
from pathlib import Path

from dynascope.report.facts import VERSION, CompileReport
from dynascope.report.json_format import from_json

from dynascope_server.ide.user_files import absolute


class UnreadableReport(Exception):
    """The message says what is wrong and what to do; `missing` tells a file that was never written."""

    def __init__(self, message: str, remedy: str, code: str = "unreadable-report"):
        super().__init__(message)
        self.remedy = remedy
        self.code = code


def read_report(path: Path, folder: str) -> CompileReport:
    """The report with every file name absolute, relative ones being relative to `folder`."""
    try:
        data = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise UnreadableReport(
            "The engine ended without writing a report.",
            "See the program's output for the cause; `dynascope doctor` checks the installation.",
            "no-report",
        ) from None
    except (OSError, ValueError) as error:
        raise UnreadableReport(f"The engine's report cannot be read: {error}.", f"The file is {path}.") from error
    version = data.get("version") if isinstance(data, dict) else None
    if isinstance(version, int) and version > VERSION:
        raise UnreadableReport(
            f"The engine's report has version {version}; this server reads versions up to {VERSION}.",
            "Update the Dynascope extension, or the server, to the engine's version.",
            "newer-report",
        )
    try:
        return absolute(from_json(CompileReport, data), folder)
    except (ValueError, TypeError, KeyError) as error:
        raise UnreadableReport(
            f"The engine's report does not fit its schema: {error}.", f"The file is {path}."
        ) from error
