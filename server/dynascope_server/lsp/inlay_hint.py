"""textDocument/inlayHint"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lsprotocol import types

from dynascope_server.ide.hints import hints
from dynascope_server.ide.text_lines import text_lines
from dynascope_server.lsp import convert, uris
from dynascope_server.lsp.positions import area_of_line

if TYPE_CHECKING:
    from dynascope_server.lsp.server import DynascopeServer


def answer(server: DynascopeServer, params: types.InlayHintParams) -> list[types.InlayHint]:
    path = uris.to_path(params.text_document.uri)
    view = server.session.view(path) if path and server.settings.hints else None
    if path is None or view is None:
        return []
    lines = text_lines(server.text_of(path))
    first, last = params.range.start.line + 1, params.range.end.line + 1
    shown = (hint for hint in hints(view) if first <= hint.line <= last)
    return [convert.hint(hint, area_of_line(hint.line, lines, server.encoding)) for hint in shown]
