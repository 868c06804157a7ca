"""The progress bar of one run, in clients that have one. A client that never answers is never waited for."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from dynascope_server.lsp import convert

if TYPE_CHECKING:
    from dynascope_server.lsp.server import DynascopeServer

logger = logging.getLogger(__name__)


class ProgressBar:
    def __init__(self, server: DynascopeServer, token: str, title: str):
        self._progress = server.work_done_progress
        self._token = token
        self._title = title
        self._text = ""
        self._shown = False
        self._over = False
        window = server.client_capabilities.window
        if window is not None and window.work_done_progress:
            self._creation = asyncio.create_task(self._create())

    def report(self, text: str) -> None:
        if text == self._text:
            return
        self._text = text
        if self._shown and not self._over:
            self._progress.report(self._token, convert.progress_report(text))

    def end(self, text: str) -> None:
        if self._shown and not self._over:
            self._progress.end(self._token, convert.progress_end(text))
        self._over = True

    async def _create(self) -> None:
        try:
            await self._progress.create_async(self._token)
        except Exception as error:
            logger.warning("the client made no progress bar: %s", error)
            return
        if not self._over:
            self._shown = True
            self._progress.begin(self._token, convert.progress_begin(self._title, self._text))
