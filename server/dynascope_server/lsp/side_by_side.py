"""What an engine command finds out about a program or one function of it, as a document: backends and captures compared, the trace.

The program is run for that, once or several times, so a person asks for it; progress is shown and can be cancelled.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
from typing import TYPE_CHECKING, Any

from dynascope.report.syntax import function_around

from dynascope_server.ide.addresses import Address, owner_of
from dynascope_server.interpreter import engine_command, find_interpreter, program_environment
from dynascope_server.lsp.progress import ProgressBar
from dynascope_server.lsp.runs import Refused
from dynascope_server.process_tree import signal_each, signal_tree

if TYPE_CHECKING:
    from dynascope_server.lsp.server import DynascopeServer

LIMIT_SECONDS = 1200.0


class SideBySide:
    """One command at a time for a program."""

    def __init__(self, server: DynascopeServer) -> None:
        self._server = server
        self._going: dict[str, subprocess.Popen[bytes]] = {}
        self._count = 0

    async def backends(self, path: str) -> list[dict[str, str]]:
        """Names, words and states."""
        _, text, _ = await self._run("dynascope-backends", ["backends", "--json"], self._server.folder_of(path))
        return [{name: str(row[name]) for name in ("name", "words", "state")} for row in json.loads(text)]

    async def compare_backends(self, path: str, names: str) -> dict[str, Any]:
        options = ["compare", "--output-format", "markdown", "--backends", names]
        return await self._shown(path, f"comparing {names}", options, path, "backends.md")

    async def compare_captures(self, path: str, line: int) -> dict[str, Any]:
        name = self._function(path, line)
        options = ["compare-captures", "--output-format", "markdown"]
        return await self._shown(path, f"captures of {name}", options, f"{path}::{name}", f"captures-of-{name}.md")

    async def trace(self, path: str, line: int) -> dict[str, Any]:
        name = self._function(path, line)
        return await self._shown(path, f"tracing {name}", ["show", "trace"], f"{path}::{name}", f"trace-of-{name}.txt")

    def cancel_token(self, token: str) -> None:
        if token in self._going:
            self._end(token)

    def kill_all(self) -> None:
        for token in list(self._going):
            self._end(token)

    def _end(self, token: str) -> None:
        process = self._going.pop(token)
        signal_each(signal_tree(process.pid, signal.SIGKILL), signal.SIGKILL)

    def _function(self, path: str, line: int) -> str:
        name = function_around(self._server.text_of(path).encode(), line + 1)
        if name is None:
            raise Refused("Put the cursor into a function first.")
        return name

    async def _shown(self, path: str, title: str, words: list[str], target: str, what: str) -> dict[str, Any]:
        server = self._server
        if not os.path.isfile(path):
            raise Refused(f"{path} is no file on disk. Save it first.")
        report = server.session.report_of(path)
        arguments = report.program.arguments if report is not None else server.settings.run.arguments
        self._count += 1
        token = f"dynascope-{os.getpid()}-beside-{self._count}"
        progress = ProgressBar(server, token, f"Dynascope: {title}")
        progress.report(os.path.basename(path))
        try:
            code, text, errors = await self._run(token, [*words, target, "--", *arguments], server.folder_of(path))
        finally:
            progress.end("")
        if not text.strip():
            last = errors.strip().splitlines()
            raise Refused(f"{title}: {last[-1].removeprefix('dynascope: ') if last else f'exit code {code}'}")
        uri = server.documents.put(Address(owner_of(path), what), text)
        server.show_document(uri, None)
        return {"uri": uri, "text": text}

    async def _run(self, token: str, words: list[str], folder: str) -> tuple[int, str, str]:
        settings = self._server.settings
        if not settings.trusted:
            raise Refused("This workspace is not trusted, so nothing in it is run. Trust it first.")
        environment = program_environment(settings, os.environ)
        interpreter = find_interpreter(settings, folder, environment.get("PATH"))
        if interpreter is None:
            raise Refused("No Python interpreter was found. Name one that has torch in Dynascope's settings.")
        command = engine_command(interpreter, *words)
        return await asyncio.to_thread(self._run_to_its_end, token, command, folder, environment)

    def _run_to_its_end(self, token: str, command: list[str], folder: str, environment: dict[str, str]) -> tuple[int, str, str]:
        process = self._going[token] = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        try:
            written, errors = process.communicate(timeout=LIMIT_SECONDS)
        except subprocess.TimeoutExpired:
            self._end(token)
            written, errors = process.communicate()
        self._going.pop(token, None)
        return process.returncode, written.decode(errors="replace"), errors.decode(errors="replace")
