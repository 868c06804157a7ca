"""textDocument/codeLens"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lsprotocol import types

from dynascope_server.ide.lenses import lenses
from dynascope_server.lsp import convert, uris

if TYPE_CHECKING:
    from dynascope_server.lsp.server import DynascopeServer


def answer(server: DynascopeServer, params: types.CodeLensParams) -> list[types.CodeLens]:
    path = uris.to_path(params.text_document.uri)
    if path is None or not server.settings.lenses or server.storage.address_of(path):
        return []
    server.lens_refresh.answered(path)
    session = server.session
    has_run = session.program_of(path) is not None
    found = lenses(path, server.text_of(path), session.view(path), server.runs.activity(path), has_run)
    return [convert.lens(lens, server.uri_of(lens.act.path) if lens.act.path else None) for lens in found]
