"""textDocument/documentLink, for the documents that the server makes"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lsprotocol import types

from dynascope_server.ide.links import links
from dynascope_server.ide.text_lines import text_lines
from dynascope_server.lsp import convert, uris
from dynascope_server.lsp.positions import area_of_characters

if TYPE_CHECKING:
    from dynascope_server.lsp.server import DynascopeServer


def answer(server: DynascopeServer, params: types.DocumentLinkParams) -> list[types.DocumentLink]:
    address = server.documents.address_of(params.text_document.uri)
    if address is None:
        return []
    document = server.documents.document(address)
    lines = text_lines(document.text)
    return [
        convert.document_link(
            area_of_characters(link.line, link.start, link.end, lines, server.encoding),
            uris.at_line(server.uri_of(link.target.file), link.target.line),
            f"{link.target}",
        )
        for link in links(document, server.cell_names)
        if server.uri_of(link.target.file)
    ]
