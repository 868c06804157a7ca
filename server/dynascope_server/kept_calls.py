"""The processes in which the calls of one run are kept, and what they answer about edited text.

calls = KeptCalls(folder)
calls.descriptor                    for `dynascope run --keep-fd`; each process that keeps a call comes through it
async for answers in calls.ask(keys, {"model.py": (old, new)}): ...
calls.close()                       and all of them end

A process lives as long as its socket: it goes with the server, however that ends, and leaves nothing behind.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import os
import socket
from collections import defaultdict
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

logger = logging.getLogger(__name__)

Key = tuple[str, str, int]
"""A function's qualified name, its file, its first line."""
ANSWER_SECONDS = 20.0
LATER_SECONDS = 5.0
"""In which who was asked says that the time is over; after it, that nobody answers."""
GREETING_BYTES = 4096
DESCRIPTORS = 8
ASKED_AT_ONCE = 3
"""Calls of one function: each takes a processor for itself."""
LINE_LIMIT = 256 * 1024 * 1024


def is_served() -> bool:
    """Calls are kept in forks."""
    return hasattr(os, "fork") and hasattr(socket, "recv_fds")


@dataclass(frozen=True, slots=True)
class Answer:
    """`report` as JSON, or in `trouble` why there is none; `place` is the file and line that it is about, if one."""

    key: Key
    number: int
    report: dict[str, Any] | None = None
    trouble: str = ""
    place: tuple[str, int] | None = None
    is_unreadable: bool = False
    """The text is no Python, as while one types."""


@dataclass(eq=False)
class _Kept:
    key: Key
    number: int
    """Which call of the function it was."""
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


class KeptCalls:
    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._kept: list[_Kept] = []
        self._numbers = itertools.count(1)
        self._asking = asyncio.Lock()
        self._joining: set[asyncio.Task] = set()
        self._ours, self._theirs = socket.socketpair()
        self._ours.setblocking(False)
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._ours, self._arrived)

    @property
    def descriptor(self) -> int:
        return self._theirs.fileno()

    def handed_over(self) -> None:
        """The program has its end, or never will."""
        self._theirs.close()

    def close(self) -> None:
        self._stop_listening()
        self._theirs.close()
        for kept in self._kept:
            kept.writer.close()
        self._kept.clear()

    def keys(self) -> set[Key]:
        return {kept.key for kept in self._kept}

    async def ask(self, keys: Collection[Key], texts: Mapping[str, tuple[str, str]]) -> AsyncIterator[list[Answer]]:
        """Of each kept call of these functions, of many the last ones first. Who is cancelled, or asks too much, leaves nothing to the
        next."""
        if self._joining:
            await asyncio.wait(set(self._joining))
        for turn in _turns([kept for kept in self._kept if kept.key in keys]):
            identifier = next(self._numbers)
            question = json.dumps({"id": identifier, "texts": texts, "seconds": ANSWER_SECONDS}, ensure_ascii=True)
            for kept in turn:
                kept.writer.write(question.encode() + b"\n")
            async with self._asking:
                answers = await asyncio.gather(*(self._answer(kept, identifier) for kept in turn))
            yield [answer for answer in answers if answer is not None]

    async def _answer(self, kept: _Kept, identifier: int) -> Answer | None:
        data: dict[str, Any] = {}
        try:
            async with asyncio.timeout(ANSWER_SECONDS + LATER_SECONDS):
                while data.get("id") != identifier:
                    line = await kept.reader.readline()
                    if not line:
                        self._drop(kept)
                        return None
                    # The answer to an earlier question may have been cut short.
                    with suppress(ValueError):
                        data = json.loads(line)
        except TimeoutError:
            return Answer(kept.key, kept.number, trouble="It takes too long without a run.")
        except OSError as error:
            logger.warning("a kept call cannot be asked: %s", error)
            self._drop(kept)
            return None
        place = (str(data["file"]), int(data["line"])) if "file" in data else None
        trouble, unreadable = str(data.get("trouble", "")), bool(data.get("unreadable"))
        return Answer(kept.key, kept.number, data.get("report"), trouble, place, unreadable)

    def _drop(self, kept: _Kept) -> None:
        kept.writer.close()
        with suppress(ValueError):
            self._kept.remove(kept)

    def _arrived(self) -> None:
        try:
            data, descriptors, _, _ = socket.recv_fds(self._ours, GREETING_BYTES, DESCRIPTORS)
        except BlockingIOError:
            return
        except OSError:
            data, descriptors = b"", []
        if not data:
            self._stop_listening()
            return
        for line, descriptor in zip(data.splitlines(), descriptors, strict=False):
            task = self._loop.create_task(self._join(json.loads(line), socket.socket(fileno=descriptor)))
            self._joining.add(task)
            task.add_done_callback(self._joining.discard)

    async def _join(self, greeting: dict[str, Any], channel: socket.socket) -> None:
        reader, writer = await asyncio.open_connection(sock=channel, limit=LINE_LIMIT)
        if self._ours.fileno() < 0:
            writer.close()
            return
        file = os.path.normpath(os.path.join(self._folder, greeting["file"]))
        self._kept.append(_Kept((greeting["function"], file, greeting["line"]), greeting["number"], reader, writer))

    def _stop_listening(self) -> None:
        if self._ours.fileno() >= 0:
            self._loop.remove_reader(self._ours)
            self._ours.close()


def _turns(asked: list[_Kept]) -> list[list[_Kept]]:
    """At least one. The call that a person sees is most often the last one."""
    of_function: dict[Key, list[_Kept]] = defaultdict(list)
    for kept in sorted(asked, key=lambda kept: -kept.number):
        of_function[kept.key].append(kept)
    longest = max(map(len, of_function.values()), default=1)
    return [[kept for calls in of_function.values() for kept in calls[n : n + ASKED_AT_ONCE]] for n in range(0, longest, ASKED_AT_ONCE)]
