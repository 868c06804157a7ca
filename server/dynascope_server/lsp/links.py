"""dynascope/links: which lines of a made document came from which lines of the user's, as these lie now"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynascope_server.lsp.errors import BadRequest

if TYPE_CHECKING:
    from dynascope_server.lsp.server import DynascopeServer


def answer(server: DynascopeServer, params: Any) -> dict[str, Any]:
    """Lines from 0. `program` is the file whose run the document is of."""
    uri = params.get("uri") if isinstance(params, dict) else None
    address = server.documents.address_of(uri) if isinstance(uri, str) else None
    if address is None:
        raise BadRequest(f"no document of Dynascope's: {uri!r}")
    found = {}
    for link in server.documents.document(address).links:
        view = server.session.view(link.span.file)
        now = view.lines.line(link.span.line) if view is not None else link.span.line
        if now is not None and (target := server.uri_of(link.span.file)):
            found[link.line, target, now] = {"line": link.line - 1, "uri": target, "place": now - 1}
    program = server.documents.program_of(address)
    return {"program": server.uri_of(program) if program else None, "links": list(found.values())}
