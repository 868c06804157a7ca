"""The process of a kept call: it waits, and answers each question in a fork of itself, so that nothing that an answer needed
is there at the next.

    {"id": 3, "texts": {"model.py": ["as it ran", "as it is now"]}, "seconds": 5}
    {"id": 3, "report": {...}}    or, where only a run can say,    {"id": 3, "trouble": "...", "file"?, "line"?}
    {"id": 3, "trouble": "...", "unreadable": true}    where the text is no Python

A question ends the one before it: its answer is not wanted any more.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import time
from collections.abc import Mapping
from types import FunctionType
from typing import Any

import dynascope.live.trial  # noqa: F401 (loaded once, before the forks)
from dynascope.dataclass import dataclass
from dynascope.live.keeping import leave

CHUNK = 1 << 16
SECONDS = 5.0
"""For one answer, where the question says nothing else."""


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """The state of the region that was compiled, the frame's values at its start, and every function that there was, by file."""

    state: Any
    values: Any
    functions: Mapping[str, list[FunctionType]]


def serve(call: Call, channel: socket.socket) -> None:
    """Returns when the other end is closed."""
    begun, arrived = None, b""
    while True:
        patience = None if begun is None else max(0.0, begun[1] - time.monotonic())
        readable, _, _ = select.select([channel], [], [], patience)
        if not readable:
            begun = _ended(begun)
            continue
        data = channel.recv(CHUNK)
        if not data:
            _ended(begun)
            return
        arrived += data
        *lines, arrived = arrived.split(b"\n")
        for line in lines:
            _ended(begun)
            question = json.loads(line)
            begun = _begin(call, question, channel), time.monotonic() + question.get("seconds", SECONDS)


def _begin(call: Call, question: dict[str, Any], channel: socket.socket) -> int:
    child = os.fork()
    if child == 0:
        try:
            from dynascope.live.trial import answered

            try:
                found = answered(call.state, call.values, call.functions, question["texts"])
            except Exception as error:
                found = {"trouble": f"It could not be captured without a run ({type(error).__name__}: {error})."}
            answer = {"id": question["id"], **found}
            # A line of its own, also behind one that was cut short because its question was out of date.
            channel.sendall(b"\n" + json.dumps(answer).encode() + b"\n")
        finally:
            leave()
    return child


def _ended(begun: tuple[int, float] | None) -> None:
    """A fork that is done, or that took too long, goes."""
    if begun is not None:
        os.kill(begun[0], signal.SIGKILL)
        os.waitpid(begun[0], 0)
