"""textDocument/codeAction"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lsprotocol import types

from dynascope_server.ide.actions import actions
from dynascope_server.ide.acts import FIND_FIXES
from dynascope_server.ide.lenses import USES_TORCH
from dynascope_server.lsp import convert, uris

if TYPE_CHECKING:
    from dynascope_server.lsp.server import DynascopeServer


def answer(server: DynascopeServer, params: types.CodeActionParams) -> list[types.CodeAction]:
    path = uris.to_path(params.text_document.uri)
    if path is None or server.storage.address_of(path):
        return []
    view, activity = server.session.view(path), server.runs.activity(path)
    has_run = server.session.program_of(path) is not None
    if not has_run and activity == "idle" and not USES_TORCH.search(server.text_of(path)):
        return []
    first, last = params.range.start.line + 1, params.range.end.line + 1
    offers = server.fixes.offers(path, first, last)
    made = [
        convert.fix(offer, {file: server.text_of(file) for file in offer.edits}, server, params.context.diagnostics)
        for offer in offers
    ]
    made += [
        convert.action(found, server.uri_of(found.act.path) if found.act.path else None, params.context.diagnostics)
        for found in actions(path, view, activity, first, last, server.text_of(path))
        if not (offers and found.act.command == FIND_FIXES)
    ]
    wanted = params.context.only
    return [action for action in made if wanted is None or any(_within(action.kind, kind) for kind in wanted)]


def _within(kind: str | None, wanted: str) -> bool:
    return not wanted or kind == wanted or (kind or "").startswith(f"{wanted}.")
