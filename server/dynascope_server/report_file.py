"""The report on disk with absolute file names, or in words why there is none."""

from __future__ import annotations

from pathlib import Path

from dynascope.report.facts import CompileReport
from dynascope.report.store import ReportUnreadable
from dynascope.report.store import read_report as read_stored

from dynascope_server.ide.absolute_files import absolute


class UnreadableReport(Exception):
    """The message says what is wrong, the remedy what to do."""

    def __init__(self, code: str, message: str, remedy: str):
        super().__init__(message)
        self.code = code
        self.remedy = remedy


def read_report(path: Path, folder: str) -> CompileReport:
    """Relative file names are taken as relative to `folder`. Raises `UnreadableReport`."""
    try:
        return absolute(read_stored(path), folder)
    except FileNotFoundError:
        message = "The engine ended without writing a report."
        remedy = "See the program's output for the cause; `dynascope doctor` checks the installation."
        raise UnreadableReport("no-report", message, remedy) from None
    except (ReportUnreadable, OSError, ValueError) as error:
        message = f"The engine's report cannot be read: {error}."
        remedy = "Bring the engine and the Dynascope extension or server to the same version."
        raise UnreadableReport("unreadable-report", message, remedy) from error
