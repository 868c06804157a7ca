"""The process of a kept call: it waits, and answers each question in a fork of itself, so that nothing that an answer needed
is there at the next.

    {"id": 3, "texts": {"model.py": ["as it ran", "as it is now"]}, "seconds": 5}
    {"id": 3, "report": {...}}    or, where only a run can say,    {"id": 3, "trouble": "...", "file"?, "line"?}
    {"id": 3, "trouble": "...", "unreadable": true}    where the text is no Python

A question ends the one before it: its answer is not wanted any more. An answer has a time and a memory of its own: what an edit makes of
constants, and loops that turn for long, are the program's to wait for, not an editor's.
"""

from __future__ import annotations

import json
import mmap
import os
import resource
import select
import signal
import socket
import sys
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
MEMORY = 4 << 30
"""Bytes for one answer, beside what the process has."""


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """The state of the region that was compiled, the frame's values at its start, and every function that there was, by file."""

    state: Any
    values: Any
    functions: Mapping[str, list[FunctionType]]


def serve(call: Call, channel: socket.socket) -> None:
    """Returns when the other end is closed."""
    begun: _Begun | None = None
    arrived = b""
    while True:
        patience = None if begun is None else max(0.0, begun.end - time.monotonic())
        readable, _, _ = select.select([channel], [], [], patience)
        if not readable and begun is not None:
            if _ended(begun):
                _send(channel, {"id": begun.identifier, "trouble": f"This takes more than {begun.seconds:g} s without a run."})
            begun = None
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
            seconds = question.get("seconds", SECONDS)
            begun = _Begun(_begin(call, question, channel), question["id"], seconds, time.monotonic() + seconds)


@dataclass(frozen=True, slots=True)
class _Begun:
    """A fork that is to answer."""

    process: int
    identifier: int
    seconds: float
    end: float


def _begin(call: Call, question: dict[str, Any], channel: socket.socket) -> int:
    child = os.fork()
    if child == 0:
        try:
            from dynascope.live.trial import answered

            _limit_memory()
            try:
                found = answered(call.state, call.values, call.functions, question["texts"])
            except Exception as error:
                found = {"trouble": f"It could not be captured without a run ({type(error).__name__}: {error})."}
            _send(channel, {"id": question["id"], **found})
        finally:
            leave()
    return child


def _send(channel: socket.socket, answer: dict[str, Any]) -> None:
    """A line of its own, also behind one that was cut short because its question was out of date."""
    channel.sendall(b"\n" + json.dumps(answer).encode() + b"\n")


def _limit_memory() -> None:
    """A machine whose memory runs out ends something else of the person's."""
    if not sys.platform.startswith("linux"):
        return
    with open("/proc/self/statm", "rb") as sizes:
        held = int(sizes.read().split()[5]) * mmap.PAGESIZE
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    wanted = held + MEMORY
    resource.setrlimit(resource.RLIMIT_DATA, (wanted if most == resource.RLIM_INFINITY else min(wanted, most), most))


def _ended(begun: _Begun | None) -> bool:
    """A fork that is done, or that took too long, goes; whether it was still at work."""
    if begun is None:
        return False
    is_done, _ = os.waitpid(begun.process, os.WNOHANG)
    if not is_done:
        os.kill(begun.process, signal.SIGKILL)
        os.waitpid(begun.process, 0)
    return not is_done
