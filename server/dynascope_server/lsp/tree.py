"""dynascope/tree: what a file's run became, function by function"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynascope.report.span import Span

from dynascope_server.ide.tree import as_json, tree
from dynascope_server.lsp import uris
from dynascope_server.lsp.errors import BadRequest

if TYPE_CHECKING:
    from dynascope_server.lsp.server import DynascopeServer


def answer(server: DynascopeServer, params: Any) -> dict[str, Any]:
    uri = params.get("uri") if isinstance(params, dict) else None
    path = uris.to_path(uri) if isinstance(uri, str) else None
    if path is None:
        raise BadRequest(f"no file: {uri!r}")
    view = server.session.view(path)

    def place_of(span: Span) -> dict[str, Any] | None:
        """On the lines as they are now."""
        other = server.session.view(span.file)
        now = other.lines.span(span) if other is not None else span
        return {"uri": server.uri_of(span.file), "line": now.line - 1} if now is not None else None

    if view is None:
        return {"program": None, "nodes": []}
    return {"program": server.uri_of(view.program), "nodes": [as_json(node, place_of) for node in tree(view)]}
