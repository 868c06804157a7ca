"""What the engine says while a program runs: one JSON object a line, on a file descriptor that the parent opened.

{"event": "stage", "stage": "build", "function": "step", "span": {...}}
{"event": "report"}                       the report file was rewritten
{"event": "problem", "explanation": {...}}
{"event": "end", "exit_code": 0, "signal": null}
"""

from __future__ import annotations

import json
import os
from typing import Any

from dynascope.report.json_format import to_json
from dynascope.report.reason import Explanation
from dynascope.report.span import Span


class EventStream:
    """Writes events. A reader that went away is no reason to disturb the program: the stream then goes quiet."""

    def __init__(self, descriptor: int | None) -> None:
        self._descriptor = descriptor

    def stage(self, stage: str, function: str, span: Span) -> None:
        self._write({"event": "stage", "stage": stage, "function": function, "span": to_json(span)})

    def report(self) -> None:
        self._write({"event": "report"})

    def problem(self, explanation: Explanation) -> None:
        self._write({"event": "problem", "explanation": to_json(explanation)})

    def end(self, exit_code: int | None, signal: int | None) -> None:
        self._write({"event": "end", "exit_code": exit_code, "signal": signal})

    def _write(self, event: dict[str, Any]) -> None:
        if self._descriptor is None:
            return
        try:
            os.write(self._descriptor, json.dumps(event).encode() + b"\n")
        except OSError:
            self._descriptor = None
