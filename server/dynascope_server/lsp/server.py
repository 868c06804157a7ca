"""The server: its parts, what it tells the client, and which file answers which request."""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from lsprotocol import types
from pygls.exceptions import JsonRpcInternalError
from pygls.lsp.server import LanguageServer
from pygls.protocol import JsonRPCNotification, JsonRPCRequestMessage, default_converter
from pygls.workspace import TextDocument

from dynascope_server import VERSION, capabilities
from dynascope_server.ide.acts import COMMANDS
from dynascope_server.ide.cells import CellName
from dynascope_server.lsp import (
    code_action,
    code_lens,
    configuration,
    convert,
    document,
    document_link,
    hover,
    inlay_hint,
    links,
    notebooks,
    synchronization,
    tree,
    uris,
)
from dynascope_server.lsp.commands import execute
from dynascope_server.lsp.document_store import DocumentStore
from dynascope_server.lsp.fixes import FixSearches
from dynascope_server.lsp.lens_refresh import LensRefresh
from dynascope_server.lsp.live import Live
from dynascope_server.lsp.publisher import Publisher
from dynascope_server.lsp.run_states import RunStates
from dynascope_server.lsp.runs import Runs
from dynascope_server.lsp.side_by_side import SideBySide
from dynascope_server.output import Batch
from dynascope_server.results_store import StoredResult
from dynascope_server.session import Session
from dynascope_server.settings import Settings, read_settings
from dynascope_server.source_text import read_source
from dynascope_server.storage import open_storage

logger = logging.getLogger(__name__)


class DynascopeServer(LanguageServer):
    def __init__(self):
        super().__init__(
            capabilities.NAME,
            VERSION,
            # pygls applies partial changes by `str.splitlines`, which ends lines where neither Python nor LSP does.
            text_document_sync_kind=types.TextDocumentSyncKind.Full,
            converter_factory=_converter,
        )
        self.settings = Settings()
        self.storage = open_storage(None, os.environ)
        self.session = Session(read_source, self.text_of)
        self.documents = DocumentStore(self)
        self.publisher = Publisher(self)
        self.runs = Runs(self)
        self.run_states = RunStates(self)
        self.fixes = FixSearches(self)
        self.side_by_side = SideBySide(self)
        self.live = Live(self)
        self.lens_refresh = LensRefresh(self._tell_to_refresh)
        self.cell_names: dict[str, CellName] = {}
        """Of notebooks, by the paths of the cells: what people call them."""
        self.background: set[asyncio.Task] = set()
        self._uris: dict[str, str] = {}
        self._complaints: list[str] = []
        self._told: set[str] = set()
        atexit.register(self.kill_all)
        _register(self)

    def report_server_error(self, error: Exception, source: Any) -> None:
        """To the log, and to the client unless sending is what failed: a message about that would fail again."""
        logger.error("%s: %s", getattr(source, "__name__", source), error)
        if source is not JsonRpcInternalError:
            super().report_server_error(error, source)

    @property
    def encoding(self) -> str:
        """The client's position encoding."""
        return types.PositionEncodingKind(self.workspace.position_encoding).value

    def configure(self, data: Any) -> None:
        before = self.settings.storagePath
        self.settings, complaints = read_settings(data, self.settings)
        self._complaints += complaints
        if self.settings.storagePath != before:
            self.storage = open_storage(self.settings.storagePath, os.environ)

    def tell_complaints(self) -> None:
        complaints, self._complaints = self._complaints, []
        for complaint in complaints:
            self.tell("warning", f"Dynascope: setting {complaint}")

    def text_of(self, path: str) -> str:
        """As in the editor where the file is open, else as on disk."""
        opened = self._opened(path)
        return opened.source if opened is not None else read_source(path)

    def _opened(self, path: str) -> TextDocument | None:
        """pygls 2 keeps documents by what their URIs say, earlier ones by the URIs as the client writes them."""
        uri, documents = self.uri_of(path), self.workspace.text_documents
        return documents.get(uri) or documents.get(unquote(uri))

    def uri_of(self, path: str) -> str:
        """As the client writes it; empty for what is no file."""
        return self._uris.get(path) or uris.from_path(path)

    def remember_uri(self, path: str, uri: str) -> None:
        self._uris[path] = uri

    def folder_of(self, path: str) -> str:
        """The innermost workspace folder around a file; the file's own folder outside of all."""
        folders = [folder for folder in self.workspace_folders() if Path(path).is_relative_to(folder)]
        return max(folders, key=len, default=os.path.dirname(path))

    def workspace_folder(self) -> str | None:
        return next(iter(self.workspace_folders()), None)

    def tell(self, kind: str, text: str) -> None:
        self.window_show_message(convert.message("information" if kind == "hint" else kind, text))

    def tell_once(self, kind: str, text: str) -> None:
        """What would be the same after every run is said after the first."""
        if text not in self._told:
            self._told.add(text)
            self.tell(kind, text)

    def new_run(self, path: str) -> tuple[Path, Path]:
        """Paths for the log and the report of a run. Where the folder is full or gone, those of another folder."""
        try:
            return self.storage.new_run(path)
        except OSError as error:
            lost, self.storage = self.storage, open_storage(self.settings.storagePath, os.environ)
            self.tell("warning", f"Dynascope: {lost.root} cannot be written ({error}); {self.storage.root} is used.")
            return self.storage.new_run(path)

    def keep_for_the_next_window(self, program: str, report: Path, folder: str) -> bool:
        """What is known of a program, whose report lies there. A folder that cannot be written costs only that: False."""
        stored = StoredResult(program, f"{report}", folder, self.session.texts_of(program))
        try:
            self.storage.results.keep(stored)
        except OSError as error:
            logger.warning("the result of %s is not kept: %s", program, error)
            return False
        return True

    def show_document(self, uri: str, line: int | None) -> None:
        window = self.client_capabilities.window
        if window is not None and window.show_document is not None and window.show_document.support:
            self.window_show_document(convert.show_document(uri, line))
        else:
            self.tell("information", f"Dynascope: {uris.to_path(uri) or uri}")

    def send_output(self, path: str, run: str, batch: Batch, log: Path) -> None:
        if self.settings.client.output:
            note = {"uri": self.uri_of(path), "run": run, "stream": batch.stream, "text": batch.text}
            self.protocol.notify("dynascope/output", {**note, "dropped": batch.dropped})
            return
        if batch.dropped:
            self.window_log_message(convert.log_message("log", f"[{batch.dropped} bytes left out; all of it: {log}]"))
        self.window_log_message(convert.log_message("log", batch.text.rstrip("\n")))

    def text_changed(self, path: str) -> None:
        self.publisher.publish({path} | self.session.touched_by(path))
        self.live.text_changed(path)

    def is_open(self, path: str) -> bool:
        return self._opened(path) is not None

    def settings_changed(self) -> None:
        self.live.settings_changed()
        self.publisher.publish_all()
        self.lens_refresh.changed()

    def results_changed(self, program: str) -> None:
        self.publisher.publish_all()
        if self.settings.client.tree:
            self.protocol.notify("dynascope/treeChanged", {"uri": self.uri_of(program)})
        changed = self.documents.refresh(program)
        if changed and self.settings.client.virtualDocuments:
            self.protocol.notify("dynascope/documentsChanged", {"uris": changed})
        self.lens_refresh.changed()

    def _tell_to_refresh(self) -> None:
        asked = self.client_capabilities.workspace
        if asked is not None and asked.code_lens is not None and asked.code_lens.refresh_support:
            self.workspace_code_lens_refresh(None)
        if asked is not None and asked.inlay_hint is not None and asked.inlay_hint.refresh_support:
            self.workspace_inlay_hint_refresh(None)

    def cancel_token(self, token: str) -> None:
        self.runs.cancel_token(token)
        self.fixes.cancel_token(token)
        self.side_by_side.cancel_token(token)

    def kill_all(self) -> None:
        """The server is going: nothing it started stays."""
        self.runs.kill_all()
        self.fixes.kill_all()
        self.side_by_side.kill_all()
        self.live.close()

    def workspace_folders(self) -> list[str]:
        known = [folder.uri for folder in self.workspace.folders.values()] or [self.workspace.root_uri or ""]
        return [path for uri in known if (path := uris.to_path(uri))]


REQUESTS: dict[str, Callable[[DynascopeServer, Any], Any]] = {
    types.INITIALIZE: configuration.initialize,
    types.INITIALIZED: configuration.initialized,
    types.SHUTDOWN: lambda server, params: server.kill_all(),
    types.WORKSPACE_DID_CHANGE_CONFIGURATION: configuration.changed,
    "dynascope/configure": configuration.configure,
    types.TEXT_DOCUMENT_DID_OPEN: synchronization.opened,
    types.TEXT_DOCUMENT_DID_CHANGE: synchronization.changed,
    types.TEXT_DOCUMENT_DID_SAVE: synchronization.saved,
    types.TEXT_DOCUMENT_DID_CLOSE: synchronization.closed,
    types.TEXT_DOCUMENT_CODE_LENS: code_lens.answer,
    types.TEXT_DOCUMENT_HOVER: hover.answer,
    types.TEXT_DOCUMENT_INLAY_HINT: inlay_hint.answer,
    types.TEXT_DOCUMENT_CODE_ACTION: code_action.answer,
    types.TEXT_DOCUMENT_DOCUMENT_LINK: document_link.answer,
    "dynascope/cellReport": notebooks.cell_ran,
    "dynascope/document": document.answer,
    "dynascope/links": links.answer,
    "dynascope/tree": tree.answer,
    types.WINDOW_WORK_DONE_PROGRESS_CANCEL: lambda server, params: server.cancel_token(params.token),
}


OPTIONS = {types.TEXT_DOCUMENT_CODE_ACTION: types.CodeActionOptions(list(capabilities.ACTION_KINDS))}


def _register(server: DynascopeServer) -> None:
    """Plain functions of (server, params); pygls sees functions of params alone."""
    for method, answer in REQUESTS.items():
        server.feature(method, OPTIONS.get(method))(_with_server(server, answer))
    for name in COMMANDS:
        server.command(name)(_command(server, name))


def _with_server(server: DynascopeServer, answer: Callable[[DynascopeServer, Any], Any]) -> Callable[[Any], Any]:
    def handle(params: Any = None) -> Any:
        return answer(server, params)

    return handle


def _command(server: DynascopeServer, name: str) -> Callable[..., Any]:
    async def handle(*arguments: Any) -> Any:
        return await execute(server, name, list(arguments))

    return handle


def _converter():
    """Parameters of messages outside LSP stay plain JSON; pygls makes named tuples of them, which rename keys."""
    converter = default_converter()
    for kind in (JsonRPCRequestMessage, JsonRPCNotification):
        converter.register_structure_hook(kind, lambda data, cls: cls(**data))
    return converter
