"""textDocument/didOpen, didChange, didSave, didClose: results follow the text."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import TYPE_CHECKING

from lsprotocol import types

from dynascope_server.lsp import uris
from dynascope_server.report_file import UnreadableReport, read_report
from dynascope_server.results_store import StoredResult

if TYPE_CHECKING:
    from dynascope_server.lsp.server import DynascopeServer

logger = logging.getLogger(__name__)

AnyParams = types.DidChangeTextDocumentParams | types.DidSaveTextDocumentParams | types.DidCloseTextDocumentParams


def opened(server: DynascopeServer, params: types.DidOpenTextDocumentParams) -> None:
    path = uris.to_path(params.text_document.uri)
    if path is not None:
        server.remember_uri(path, params.text_document.uri)
        server.text_changed(path)
        restore(server, path)


def restore(server: DynascopeServer, path: str) -> None:
    """What an earlier window found out about a file is there again when the file is opened."""
    known = server.session.programs()
    for stored in server.storage.results.speaking_of(path):
        if stored.program not in known:
            task = asyncio.ensure_future(_restore(server, stored))
            server.background.add(task)
            task.add_done_callback(server.background.discard)


async def _restore(server: DynascopeServer, stored: StoredResult) -> None:
    try:
        report = await asyncio.to_thread(read_report, Path(stored.report), stored.folder)
    except UnreadableReport as error:
        logger.info("not restored: %s", error)
        return
    server.session.restore(stored.program, report, stored.texts)
    server.results_changed(stored.program)
    server.run_states.restored(stored.program, "Of an earlier run", report, stored.report)


def saved(server: DynascopeServer, params: types.DidSaveTextDocumentParams) -> None:
    """Where the person wants it, a program whose results are shown runs again when one of its files is saved."""
    changed(server, params)
    path = uris.to_path(params.text_document.uri)
    program = server.session.program_of(path) if path is not None else None
    if program is None or not (server.settings.runOnSave and server.settings.trusted):
        return
    if server.runs.activity(program) == "idle":
        server.runs.start(program, server.runs.arguments_of(program))


def changed(server: DynascopeServer, params: AnyParams) -> None:
    path = uris.to_path(params.text_document.uri)
    if path is not None:
        server.text_changed(path)


def closed(server: DynascopeServer, params: types.DidCloseTextDocumentParams) -> None:
    changed(server, params)
    path = uris.to_path(params.text_document.uri)
    if path is not None:
        server.lens_refresh.closed(path)
