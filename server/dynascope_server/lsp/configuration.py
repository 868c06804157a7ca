"""initialize, dynascope/configure, workspace/didChangeConfiguration: the settings and their changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lsprotocol import types

if TYPE_CHECKING:
    from dynascope_server.lsp.server import DynascopeServer


def initialize(server: DynascopeServer, params: types.InitializeParams) -> None:
    server.configure(params.initialization_options)


def initialized(server: DynascopeServer, params: types.InitializedParams) -> None:
    """Only now may messages be shown. A client that had another server before may still show what that one knew."""
    server.tell_complaints()
    server.lens_refresh.changed()


def configure(server: DynascopeServer, params: Any) -> None:
    server.configure(params)
    server.tell_complaints()
    server.settings_changed()


def changed(server: DynascopeServer, params: types.DidChangeConfigurationParams) -> None:
    """Clients without a push of their own send `{"settings": null}`; that changes nothing."""
    own = params.settings.get("dynascope") if isinstance(params.settings, dict) else None
    if own is not None:
        configure(server, own)
