"""textDocument/hover"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lsprotocol import types

from dynascope_server.ide.hovers import hover
from dynascope_server.ide.problems import Problem
from dynascope_server.ide.text_lines import text_lines
from dynascope_server.lsp import convert, uris
from dynascope_server.lsp.positions import area_of_line, area_of_span

if TYPE_CHECKING:
    from dynascope_server.lsp.server import DynascopeServer


def answer(server: DynascopeServer, params: types.HoverParams) -> types.Hover | None:
    path = uris.to_path(params.text_document.uri)
    view = server.session.view(path) if path else None
    if path is None or view is None:
        return None
    line, lines = params.position.line + 1, text_lines(server.text_of(path))

    def is_told(problem: Problem) -> bool:
        """The client shows a diagnostic beside this where the pointer is in its range."""
        span = view.lines.span(problem.span)
        if span is None:
            return False
        area, place = area_of_span(span, lines, server.encoding), (params.position.line, params.position.character)
        return (area.line, area.column) <= place <= (area.end_line, area.end_column)

    markdown = hover(view, line, server.documents.uri_of, is_told)
    return convert.hover(markdown, area_of_line(line, lines, server.encoding)) if markdown is not None else None
