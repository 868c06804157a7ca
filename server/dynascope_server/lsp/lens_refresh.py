"""Tells the client to ask for lenses and hints again, and again until it has asked.

A client may lose a refresh: VS Code waits a moment before it asks, and forgets that it wanted to when the editor loses
the focus in that moment. A run that ended then would keep its "cancel" lens. So a refresh counts as done only when the
lenses of every file whose lenses the client holds were asked for after it; otherwise it is repeated, ever more rarely,
for the file of a hidden tab is asked for only when it is shown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

REPEAT_SECONDS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
"""Pauses between repetitions. They grow beyond the time that any client waits before it asks."""


class LensRefresh:
    """`tell` sends the refresh requests."""

    def __init__(self, tell: Callable[[], None]):
        self._tell = tell
        self._held: dict[str, bool] = {}
        """Files whose lenses the client asked for; True where that was since the newest refresh."""
        self._repeating: asyncio.Task | None = None

    def answered(self, path: str) -> None:
        """The client has been given the lenses of a file as they are now."""
        self._held[path] = True

    def closed(self, path: str) -> None:
        self._held.pop(path, None)

    def changed(self) -> None:
        """Lenses may be others now. Called in the event loop."""
        self._held = dict.fromkeys(self._held, False)
        self._tell()
        if self._repeating is not None:
            self._repeating.cancel()
        self._repeating = asyncio.get_running_loop().create_task(self._repeat())

    async def _repeat(self) -> None:
        for pause in REPEAT_SECONDS:
            await asyncio.sleep(pause)
            if all(self._held.values()):
                return
            self._tell()
