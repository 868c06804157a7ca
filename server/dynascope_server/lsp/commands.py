"""workspace/executeCommand: what each command does."""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from dynascope_server import VERSION
from dynascope_server.ide import acts
from dynascope_server.ide.addresses import Address, owner_of, reason_address
from dynascope_server.ide.documents import SUMMARY
from dynascope_server.ide.selection import Choice, Detail, NoChoice, choose_graph, choose_kernel
from dynascope_server.interpreter import engine_folders, find_interpreter
from dynascope_server.lsp import uris
from dynascope_server.lsp.doctor import run_doctor
from dynascope_server.lsp.runs import Refused

if TYPE_CHECKING:
    from dynascope_server.lsp.server import DynascopeServer

Arguments = list[Any]


async def execute(server: DynascopeServer, name: str, arguments: Arguments) -> Any:
    """The command's result; None where it was refused, with a message to the person saying why."""
    try:
        result = HANDLERS[name](server, arguments)
        return await result if isinstance(result, Awaitable) else result
    except Refused as refusal:
        server.tell("warning", f"Dynascope: {refusal}")
        return None


def _compile_and_run(server: DynascopeServer, arguments: Arguments) -> dict[str, str]:
    path, given = _path(server, arguments), _detail(arguments).get("arguments")
    if given is not None and not (isinstance(given, list) and all(isinstance(word, str) for word in given)):
        raise Refused("The program's arguments should be a list of strings.")
    return server.runs.start(path, None if given is None else tuple(given)).handle


def _cancel(server: DynascopeServer, arguments: Arguments) -> dict[str, list[str]]:
    path = _path(server, arguments) if arguments and arguments[0] else None
    return {"cancelled": [server.uri_of(ended) for ended in server.runs.cancel(path)]}


def _show(choose: Callable[[Any, Detail], Choice | NoChoice]) -> Callable[[DynascopeServer, Arguments], dict[str, str]]:
    def show(server: DynascopeServer, arguments: Arguments) -> dict[str, str]:
        path = _path(server, arguments)
        view = server.session.view(path)
        if view is None or view.report is None:
            raise Refused(f"Nothing is known of {os.path.basename(path)} yet. Compile and run it first.")
        choice = choose(view, _detail(arguments))
        if isinstance(choice, NoChoice):
            raise Refused(choice.message)
        return _open(server, Address(owner_of(view.program), choice.document.what), choice.line)

    return show


def _show_summary(server: DynascopeServer, arguments: Arguments) -> dict[str, str]:
    path = _path(server, arguments)
    view = server.session.view(path)
    if view is None or view.report is None:
        raise Refused(f"Nothing is known of {os.path.basename(path)} yet. Compile and run it first.")
    return _open(server, Address(owner_of(view.program), SUMMARY), None)


def _show_reason(server: DynascopeServer, arguments: Arguments) -> dict[str, str]:
    if not (arguments and isinstance(arguments[0], str) and arguments[0]):
        raise Refused("Which reason? Name its code, such as `data-dependent-branch`.")
    return _open(server, reason_address(arguments[0]), None)


def _clear(server: DynascopeServer, arguments: Arguments) -> None:
    server.session.clear(_path(server, arguments) if arguments and arguments[0] else None)
    server.publisher.publish_all()
    server.lens_refresh.changed()


def _debug_information(server: DynascopeServer, arguments: Arguments) -> dict[str, str]:
    folder = server.workspace_folder() or os.getcwd()
    rows = {
        "server": f"{VERSION}, Python {platform.python_version()} at {sys.executable}, {platform.platform()}",
        "libraries": ", ".join(f"{name} {_version(name)}" for name in ("pygls", "lsprotocol")),
        "interpreter": find_interpreter(server.settings, folder),
        "engine": ", ".join(engine_folders(server.settings)),
        "workspace folder": folder,
        "storage": server.storage.root,
        "position encoding": server.encoding,
        "runs": "; ".join(server.runs.describe()) or "none",
        "results": ", ".join(server.session.programs()) or "none",
        # Environment variables may hold secrets, and this text goes into public reports.
        "settings": json.dumps({**asdict(server.settings), "environment": sorted(server.settings.environment)}),
    }
    return {"text": "".join(f"{name}: {value}\n" for name, value in rows.items())}


async def _doctor(server: DynascopeServer, arguments: Arguments) -> dict[str, Any]:
    return await run_doctor(server)


HANDLERS: dict[str, Callable[[DynascopeServer, Arguments], Any]] = {
    acts.COMPILE_AND_RUN: _compile_and_run,
    acts.CANCEL: _cancel,
    acts.SHOW_KERNEL: _show(choose_kernel),
    acts.SHOW_GRAPH: _show(choose_graph),
    acts.SHOW_SUMMARY: _show_summary,
    acts.SHOW_REASON: _show_reason,
    acts.CLEAR: _clear,
    acts.DEBUG_INFORMATION: _debug_information,
    acts.DOCTOR: _doctor,
}


def _open(server: DynascopeServer, address: Address, line: int | None) -> dict[str, str]:
    uri = server.documents.uri_of(address)
    if not uri:
        raise Refused(f"{address.what} cannot be written to {server.storage.root}. Free space there.")
    server.show_document(uri, line)
    return {"uri": uri}


def _path(server: DynascopeServer, arguments: Arguments) -> str:
    uri = arguments[0] if arguments else None
    path = uris.to_path(uri) if isinstance(uri, str) else server.runs.default_path()
    if path is None:
        raise Refused("Which file? Open a Python file that is on disk first.")
    if isinstance(uri, str):
        server.remember_uri(path, uri)
    return path


def _detail(arguments: Arguments) -> Detail:
    return arguments[1] if len(arguments) > 1 and isinstance(arguments[1], dict) else {}


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "(carried along)"
