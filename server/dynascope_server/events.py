"""What the engine says while it runs: one JSON object a line.

    b'{"event": "stage", "stage": "fuse", "function": "layer_norm"}'  ->  Stage("fuse", "layer_norm")

A line that cannot be understood is skipped: a newer engine may say more.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from dynascope.report.json_format import from_json
from dynascope.report.reason import Explanation


@dataclass(frozen=True, slots=True)
class Stage:
    stage: str
    function: str


@dataclass(frozen=True, slots=True)
class ReportWritten:
    pass


@dataclass(frozen=True, slots=True)
class ProblemMet:
    explanation: Explanation


@dataclass(frozen=True, slots=True)
class Ended:
    exit_code: int | None


Event = Stage | ReportWritten | ProblemMet | Ended

READERS = {
    "stage": lambda data: Stage(str(data["stage"]), str(data.get("function") or "")),
    "report": lambda data: ReportWritten(),
    "problem": lambda data: ProblemMet(from_json(Explanation, data["explanation"])),
    "end": lambda data: Ended(data.get("exit_code")),
}


def read_event(line: bytes) -> Event | None:
    try:
        data = json.loads(line)
        return READERS[data["event"]](data)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
