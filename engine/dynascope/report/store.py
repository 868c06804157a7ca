"""Reading and writing a report file. A reader never sees half a document: the new one is complete before it has the name."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

from dynascope.report.facts import VERSION, CompileReport
from dynascope.report.json_format import from_json, to_json


class ReportUnreadable(ValueError):
    """The file is no report, or one of a version this program does not know."""


def write_report(report: CompileReport, path: Path) -> None:
    """Replace `path` by the report as JSON. Raises `OSError` when the folder is full or not writable."""
    text = json.dumps(to_json(report), ensure_ascii=False, separators=(",", ":"))
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def read_report(path: Path) -> CompileReport:
    """The report at `path`. Raises `ReportUnreadable` with what is wrong, `FileNotFoundError` where there is none."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise ReportUnreadable(f"{path} is not a report: {error}") from error
    version = data.get("version") if isinstance(data, dict) else None
    if version != VERSION:
        raise ReportUnreadable(f"{path} has report version {version!r}; this dynascope reads version {VERSION}")
    try:
        return from_json(CompileReport, data)
    except ValueError as error:
        raise ReportUnreadable(f"{path}: {error}") from error
