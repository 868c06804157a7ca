"""dynascope/document: the text of a `dynascope:` document"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynascope_server.lsp.errors import BadRequest

if TYPE_CHECKING:
    from dynascope_server.lsp.server import DynascopeServer


def answer(server: DynascopeServer, params: Any) -> dict[str, str]:
    uri = params.get("uri") if isinstance(params, dict) else None
    address = server.documents.address_of(uri) if isinstance(uri, str) else None
    if address is None:
        raise BadRequest(f"no document of Dynascope's: {uri!r}")
    document = server.documents.asked_for(address)
    return {"text": document.text, "languageId": document.language}
