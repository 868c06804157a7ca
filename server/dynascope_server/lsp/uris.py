"""`file:` URIs and paths; and cells of notebooks, whose paths have the cell's name behind the notebook's."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import unquote, urlsplit

CELL = "vscode-notebook-cell"


def from_path(path: str) -> str:
    return Path(path).as_uri() if os.path.isabs(path) else ""


def to_path(uri: str) -> str | None:
    """None for URIs that name no file of this machine, nor a cell of one."""
    parts = urlsplit(uri)
    if parts.scheme == CELL and parts.fragment:
        return f"{os.path.normpath(unquote(parts.path))}#{unquote(parts.fragment)}"
    if parts.scheme != "file" or parts.netloc not in ("", "localhost"):
        return None
    return os.path.normpath(unquote(parts.path))


def at_line(uri: str, line: int) -> str:
    """The URI of a line (from 1), in the form that editors read."""
    return f"{uri}#L{line}"
