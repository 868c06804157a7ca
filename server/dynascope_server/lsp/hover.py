"""textDocument/hover"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lsprotocol import types

from dynascope_server.ide.hovers import hover
from dynascope_server.ide.text_lines import text_lines
from dynascope_server.lsp import convert, uris
from dynascope_server.lsp.positions import area_of_line

if TYPE_CHECKING:
    from dynascope_server.lsp.server import DynascopeServer


def answer(server: DynascopeServer, params: types.HoverParams) -> types.Hover | None:
    path = uris.to_path(params.text_document.uri)
    view = server.session.view(path) if path else None
    line = params.position.line + 1
    markdown = hover(view, line, server.documents.uri_of) if view is not None else None
    if path is None or markdown is None:
        return None
    return convert.hover(markdown, area_of_line(line, text_lines(server.text_of(path)), server.encoding))
