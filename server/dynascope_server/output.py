"""The program's output on its way to the editor: in order, in batches, never more than an editor can show.

    100 MB printed in one second  ->  ten batches of the last 32 KiB each, and how many bytes came before each

The log file has every byte; only what goes to the client is thinned.
"""

from __future__ import annotations

import codecs
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

BATCH_LIMIT = 32 * 1024
STREAMS = ("stdout", "stderr")


@dataclass(frozen=True, slots=True)
class Batch:
    stream: str
    text: str
    dropped: int
    """Bytes left out before `text`."""


class OutputBuffer:
    """Holds at most `limit` bytes between two batches; the oldest go first."""

    def __init__(self, limit: int = BATCH_LIMIT):
        self._limit = limit
        self._pieces: deque[tuple[str, bytes]] = deque()
        self._held = 0
        self._dropped = 0
        self._decoders = {stream: codecs.getincrementaldecoder("utf-8")("replace") for stream in STREAMS}

    def add(self, stream: str, data: bytes) -> None:
        self._pieces.append((stream, data[-self._limit :]))
        self._dropped += max(0, len(data) - self._limit)
        self._held += min(len(data), self._limit)
        while self._held > self._limit:
            self._drop_oldest(self._held - self._limit)

    def take(self) -> Iterator[Batch]:
        """What is held, joined by stream in order; empties the buffer."""
        pieces, dropped = self._pieces, self._dropped
        self._pieces, self._held, self._dropped = deque(), 0, 0
        while pieces:
            stream, data = pieces.popleft()
            while pieces and pieces[0][0] == stream:
                data += pieces.popleft()[1]
            text = self._decoders[stream].decode(data)
            if text or dropped:
                yield Batch(stream, text, dropped)
            dropped = 0

    def _drop_oldest(self, excess: int) -> None:
        stream, data = self._pieces.popleft()
        cut = min(excess, len(data))
        self._held -= cut
        self._dropped += cut
        self._decoders[stream].reset()
        if cut < len(data):
            self._pieces.appendleft((stream, data[cut:]))
