"""textDocument/didOpen, didChange, didSave, didClose: results follow the text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lsprotocol import types

from dynascope_server.lsp import uris

if TYPE_CHECKING:
    from dynascope_server.lsp.server import DynascopeServer

AnyParams = types.DidChangeTextDocumentParams | types.DidSaveTextDocumentParams | types.DidCloseTextDocumentParams


def opened(server: DynascopeServer, params: types.DidOpenTextDocumentParams) -> None:
    path = uris.to_path(params.text_document.uri)
    if path is not None:
        server.remember_uri(path, params.text_document.uri)
        server.text_changed(path)


def changed(server: DynascopeServer, params: AnyParams) -> None:
    path = uris.to_path(params.text_document.uri)
    if path is not None:
        server.text_changed(path)


def closed(server: DynascopeServer, params: types.DidCloseTextDocumentParams) -> None:
    changed(server, params)
    path = uris.to_path(params.text_document.uri)
    if path is not None:
        server.lens_refresh.closed(path)
