"""dynascope/cellReport: a cell ran under `%%dynascope` in a kernel that is not ours, and its output says where the report lies.

Cells are documents of their own to the editor (`vscode-notebook-cell:`) and to everything here: their results are shown, they are
not run. Those of the newest run of a cell count; a function that another cell defined has its facts there.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dynascope.report.spoken_files import with_files
from dynascope.report.store import ReportUnreadable
from dynascope.report.store import read_report as read_stored

from dynascope_server.ide.cells import cell_name, cells_of
from dynascope_server.lsp import uris

if TYPE_CHECKING:
    from dynascope_server.lsp.server import DynascopeServer

logger = logging.getLogger(__name__)


def cell_ran(server: DynascopeServer, params: Any) -> None:
    """`{"cell", "cells", "files", "kernel", "file", "report", "texts"}`, of which the last four stand in the cell's output."""
    task = asyncio.ensure_future(_cell_ran(server, params))
    server.background.add(task)
    task.add_done_callback(server.background.discard)


async def _cell_ran(server: DynascopeServer, params: Any) -> None:
    try:
        here = _path(server, params["cell"])
        known = {str(file): _path(server, uri) for file, uri in params["files"].items()}
        others = [_path(server, uri) for uri in params["cells"]]
        texts = {str(file): str(text) for file, text in params["texts"].items()}
        report = await asyncio.to_thread(read_stored, Path(params["report"]))
    except FileNotFoundError:
        # Of another machine, or removed since: the output below the cell still says all of it.
        return
    except (KeyError, TypeError, ValueError, AttributeError, OSError, ReportUnreadable) as error:
        logger.warning("not a report of a cell: %s", error)
        return
    present = {path: server.text_of(path) for path in others}
    names = cells_of(texts, params["file"], here, known, present)
    placed = with_files(report, lambda file: names.get(file, file))
    server.cell_names |= {path: cell_name(file, path) for file, path in names.items()}
    server.session.take(here, placed, _texts(texts, names))
    server.results_changed(here)


def _texts(texts: Mapping[str, str], names: Mapping[str, str]) -> dict[str, str]:
    return {names[file]: text for file, text in texts.items() if file in names}


def _path(server: DynascopeServer, uri: Any) -> str:
    path = uris.to_path(uri) if isinstance(uri, str) else None
    if path is None:
        raise ValueError(f"{uri!r} is no cell")
    server.remember_uri(path, uri)
    return path
