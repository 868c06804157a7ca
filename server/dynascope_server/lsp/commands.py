"""workspace/executeCommand: what each command does."""

from __future__ import annotations

import filecmp
import json
import logging
import os
import platform
import sys
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dynascope.report.facts import CompileReport, FunctionFact
from dynascope.report.store import ReportUnreadable, write_report
from dynascope.report.store import read_report as read_stored
from dynascope.report.variants import Variant, chosen_variant

from dynascope_server import VERSION
from dynascope_server.ide import acts
from dynascope_server.ide.absolute_files import absolute
from dynascope_server.ide.addresses import Address, owner_of, reason_address
from dynascope_server.ide.documents import PREVIOUS, SUMMARY, differences_document_name
from dynascope_server.ide.file_facts import FileView, function_at
from dynascope_server.ide.foreign_paths import mapped
from dynascope_server.ide.graph_choices import graph_choices
from dynascope_server.ide.pytests import test_at
from dynascope_server.ide.selection import Choice, Detail, NoChoice, choose_graph, choose_kernel, choose_picture
from dynascope_server.ide.variants import as_offer, following, variants_at
from dynascope_server.interpreter import engine_folders, find_interpreter
from dynascope_server.lsp import uris
from dynascope_server.lsp.doctor import run_doctor
from dynascope_server.lsp.runs import Refused

if TYPE_CHECKING:
    from dynascope_server.lsp.server import DynascopeServer

logger = logging.getLogger(__name__)

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
    look = _detail(arguments).get("look")
    if look not in (None, "check", "profile"):
        raise Refused("A run looks at `check` or at `profile`.")
    return server.runs.start(path, None if given is None else tuple(given), look).handle


def _run_test(server: DynascopeServer, arguments: Arguments) -> dict[str, str]:
    path, detail = _path(server, arguments), _detail(arguments)
    found = test_at(server.text_of(path), _line(arguments) + 1) if "test" not in detail else None
    name = detail.get("test") or (found.name if found else "")
    if not isinstance(name, str) or not name:
        raise Refused("No test is here: put the cursor into a function whose name begins with `test`.")
    return server.runs.start(path, None, test=name).handle


def _cancel(server: DynascopeServer, arguments: Arguments) -> dict[str, list[str]]:
    path = _path(server, arguments) if arguments and arguments[0] else None
    return {"cancelled": [server.uri_of(ended) for ended in server.runs.cancel(path)]}


def _show(choose: Callable[[Any, Detail], Choice | NoChoice]) -> Callable[[DynascopeServer, Arguments], dict[str, str]]:
    def show(server: DynascopeServer, arguments: Arguments) -> dict[str, str]:
        path = _path(server, arguments)
        view = server.session.view(path)
        if view is None:
            raise Refused(f"Nothing is known of {os.path.basename(path)} yet. Compile and run it first.")
        choice = choose(view, _detail(arguments))
        if isinstance(choice, NoChoice):
            raise Refused(choice.message)
        return _open(server, Address(owner_of(view.program), choice.document.what), choice.line)

    return show


def _open_report(server: DynascopeServer, arguments: Arguments) -> dict[str, Any]:
    """A report made elsewhere: its files are looked for in the workspace, and every view works from it. Nothing is run."""
    given = arguments[0] if arguments else None
    path = uris.to_path(given) if isinstance(given, str) else None
    if path is None:
        raise Refused("Which report? Name the file that `dynascope run --json` wrote.")
    folders = [*server.workspace_folders(), os.path.dirname(path)]
    try:
        report, missing = mapped(read_stored(Path(path)), folders, os.path.isfile, _holds_the_same)
    except (OSError, ReportUnreadable) as error:
        raise Refused(f"{os.path.basename(path)} cannot be opened: {error}") from None
    program = os.path.abspath(report.program.file)
    server.session.begin(program)
    report = absolute(report, os.path.dirname(program))
    server.session.accept(program, report)
    server.results_changed(program)
    kept = _written_here(server, program, report)
    server.run_states.restored(program, "Of a report made elsewhere", report, kept)
    if missing:
        server.tell(
            "warning",
            f"Dynascope: {missing} {'file' if missing == 1 else 'files'} of this report cannot be found in the workspace; "
            "what concerns them is not shown.",
        )
    answer = {"program": server.uri_of(program), "missing": missing}
    return {**answer, **_open(server, Address(owner_of(program), SUMMARY), None)}


def _written_here(server: DynascopeServer, program: str, report: CompileReport) -> str:
    """Where it lies with its places here, as a run's own report does. Empty where nothing can be written."""
    try:
        _, path = server.new_run(program)
        write_report(report, path)
    except OSError as error:
        logger.warning("the report of %s is not kept: %s", program, error)
        return ""
    return f"{path}" if server.keep_for_the_next_window(program, path, os.path.dirname(program)) else ""


def _holds_the_same(file: str, other: str) -> bool:
    try:
        return filecmp.cmp(file, other, shallow=False)
    except OSError:
        return False


def _list_graphs(server: DynascopeServer, arguments: Arguments) -> dict[str, Any]:
    view = server.session.view(_path(server, arguments))
    return {"graphs": graph_choices(view) if view is not None else None}


def _show_summary(server: DynascopeServer, arguments: Arguments) -> dict[str, str]:
    path = _path(server, arguments)
    view = server.session.view(path)
    if view is None:
        raise Refused(f"Nothing is known of {os.path.basename(path)} yet. Compile and run it first.")
    return _open(server, Address(owner_of(view.program), SUMMARY), None)


def _choose_variant(server: DynascopeServer, arguments: Arguments) -> dict[str, Any]:
    """With `entry`: that one is shown from now on. Without: the offers, for a client that asks, else the next one is shown."""
    path, detail = _path(server, arguments), _detail(arguments)
    view, function, variants = _variants(server, path, detail)
    offers = [as_offer(variant) for variant in variants]
    chosen = chosen_variant(function, view.choice)
    wanted = detail.get("entry")
    if wanted is None and server.settings.client.variants:
        return {
            "function": function.identifier,
            "variants": offers,
            "chosen": chosen.entry.identifier if chosen else None,
        }
    variant = (
        next((v for v in variants if v.entry.identifier == wanted), None) if wanted else following(variants, chosen)
    )
    if variant is None:
        raise Refused(f"`{function.name}` has no variant {wanted}.")
    server.session.choose(view.program, function, variant)
    server.results_changed(view.program)
    return {"function": function.identifier, "variants": offers, "chosen": variant.entry.identifier}


def _compare_variants(server: DynascopeServer, arguments: Arguments) -> dict[str, str]:
    """The one that is shown beside `entry`, else beside the one made before it (after it, where it is the first)."""
    path, detail = _path(server, arguments), _detail(arguments)
    view, function, variants = _variants(server, path, detail)
    if len(variants) < 2:
        raise Refused(f"`{function.name}` has one variant only.")
    chosen = chosen_variant(function, view.choice) or variants[-1]
    at = chosen.number - 1
    other = next(
        (v for v in variants if v.entry.identifier == detail.get("entry")), variants[at - 1] if at else variants[1]
    )
    first, second = sorted((chosen, other), key=lambda variant: variant.number)
    what = differences_document_name(first.entry, second.entry)
    return _open(server, Address(owner_of(view.program), what), None)


def _compare_runs(server: DynascopeServer, arguments: Arguments) -> dict[str, str]:
    path = _path(server, arguments)
    view = server.session.view(path)
    if view is None or server.session.previous_report(view.program) is None:
        raise Refused(f"{os.path.basename(path)} has run once, or not at all: run it again to compare.")
    return _open(server, Address(owner_of(view.program), PREVIOUS), None)


def _variants(server: DynascopeServer, path: str, detail: Detail) -> tuple[FileView, FunctionFact, tuple[Variant, ...]]:
    view = server.session.view(path)
    if view is None:
        raise Refused(f"Nothing is known of {os.path.basename(path)} yet. Compile and run it first.")
    line = detail.get("line")
    old = view.old_line(line + 1) if isinstance(line, int) else None
    here = function_at(view.facts, old) if old is not None else None
    variants = variants_at(view, str(detail.get("function") or (here.identifier if here else "")))
    if not variants:
        raise Refused("No compiled function is here: put the cursor into one.")
    return view, variants[0].function, variants


def _show_reason(server: DynascopeServer, arguments: Arguments) -> dict[str, str]:
    if not (arguments and isinstance(arguments[0], str) and arguments[0]):
        raise Refused("Which reason? Name its code, such as `data-dependent-branch`.")
    return _open(server, reason_address(arguments[0]), None)


async def _find_fixes(server: DynascopeServer, arguments: Arguments) -> dict[str, Any]:
    return await server.fixes.find(_path(server, arguments))


async def _list_backends(server: DynascopeServer, arguments: Arguments) -> dict[str, Any]:
    return {"backends": await server.side_by_side.backends(_path(server, arguments))}


async def _compare_backends(server: DynascopeServer, arguments: Arguments) -> dict[str, Any]:
    names = _detail(arguments).get("backends")
    if not isinstance(names, str) or not names:
        raise Refused("Which backends? Name them with commas between.")
    return await server.side_by_side.compare_backends(_path(server, arguments), names)


async def _compare_captures(server: DynascopeServer, arguments: Arguments) -> dict[str, Any]:
    return await server.side_by_side.compare_captures(_path(server, arguments), _line(arguments))


async def _show_trace(server: DynascopeServer, arguments: Arguments) -> dict[str, Any]:
    return await server.side_by_side.trace(_path(server, arguments), _line(arguments))


def _line(arguments: Arguments) -> int:
    """From 0."""
    line = _detail(arguments).get("line")
    return line if isinstance(line, int) else 0


def _clear(server: DynascopeServer, arguments: Arguments) -> None:
    forgotten = server.session.clear(_path(server, arguments) if arguments and arguments[0] else None)
    server.storage.results.forget(forgotten)
    server.fixes.forget(forgotten)
    server.live.forget(forgotten)
    for program in forgotten:
        server.results_changed(program)
        server.run_states.forget(program)
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
    acts.RUN_TEST: _run_test,
    acts.CANCEL: _cancel,
    acts.SHOW_KERNEL: _show(choose_kernel),
    acts.SHOW_GRAPH: _show(choose_graph),
    acts.OPEN_REPORT: _open_report,
    acts.LIST_GRAPHS: _list_graphs,
    acts.SHOW_SUMMARY: _show_summary,
    acts.SHOW_REASON: _show_reason,
    acts.CHOOSE_VARIANT: _choose_variant,
    acts.COMPARE_VARIANTS: _compare_variants,
    acts.COMPARE_RUNS: _compare_runs,
    acts.SHOW_PICTURE: _show(choose_picture),
    acts.FIND_FIXES: _find_fixes,
    acts.LIST_BACKENDS: _list_backends,
    acts.COMPARE_BACKENDS: _compare_backends,
    acts.COMPARE_CAPTURES: _compare_captures,
    acts.SHOW_TRACE: _show_trace,
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
