"""dynascope/links: which lines of a made document came from which lines of the user's, as these lie now"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynascope_server.ide.links import links
from dynascope_server.lsp.errors import BadRequest

if TYPE_CHECKING:
    from dynascope_server.lsp.server import DynascopeServer


def answer(server: DynascopeServer, params: Any) -> dict[str, Any]:
    """Lines from 0. `program` is the file whose run the document is of."""
    uri = params.get("uri") if isinstance(params, dict) else None
    address = server.documents.address_of(uri) if isinstance(uri, str) else None
    if address is None:
        raise BadRequest(f"no document of Dynascope's: {uri!r}")
    document = server.documents.document(address)
    pairs = [(link.line, link.span) for link in document.links]
    if document.language != "html":  # lines that name a place belong to it too; a picture's lines are those of the run
        pairs += [(link.line, link.target) for link in links(document, server.cell_names)]
    found = {}
    for line, span in pairs:
        view = server.session.view(span.file)
        now = view.lines.line(span.line) if view is not None else span.line
        if now is not None and (target := server.uri_of(span.file)):
            found[line, target, now] = {"line": line - 1, "uri": target, "place": now - 1}
    program = server.documents.program_of(address)
    return {"program": server.uri_of(program) if program else None, "links": list(found.values())}
