"""What the server can do, as plain JSON: said before its libraries are loaded (see `greeting`).

A test holds this against what pygls works out from the requests that are registered.
"""

from __future__ import annotations

from typing import Any

from dynascope_server import VERSION
from dynascope_server.ide.acts import COMMANDS

NAME = "dynascope"
ACTION_KINDS = ("quickfix", "source.dynascope", "source.fixAll.dynascope", "dynascope.show")
"""An editor offers its own "Fix All" only where it is told that there may be one."""
ENCODINGS = ("utf-8", "utf-16", "utf-32")


def initialize_result(params: dict[str, Any]) -> dict[str, Any]:
    """The answer to `initialize`."""
    client = params.get("capabilities") or {}
    return {
        "capabilities": {
            "positionEncoding": choose_encoding(client),
            "textDocumentSync": {"openClose": True, "change": 1, "save": True},
            "hoverProvider": True,
            "codeActionProvider": {"codeActionKinds": list(ACTION_KINDS)},
            "codeLensProvider": {"resolveProvider": False},
            "documentLinkProvider": {"resolveProvider": False},
            "inlayHintProvider": {"resolveProvider": False},
            "executeCommandProvider": {"commands": list(COMMANDS)},
            "workspace": {"workspaceFolders": {"supported": True, "changeNotifications": True}, "fileOperations": {}},
        },
        "serverInfo": {"name": NAME, "version": VERSION},
    }


def choose_encoding(client: dict[str, Any]) -> str:
    """The first of the client's encodings that is known; UTF-16 where it names none."""
    wanted = (client.get("general") or {}).get("positionEncodings") or ()
    return next((encoding for encoding in wanted if encoding in ENCODINGS), "utf-16")
