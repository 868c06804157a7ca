"""dynascope.findFixes: the engine looks for fixes of a program and proves each, in a process of its own.

The program runs several times for that, so it is done when a person asks for it, and never in a workspace without trust.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import subprocess
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any

from dynascope_server.ide.fixes import Fixes, Offer, offers_at, read_fixes, told
from dynascope_server.interpreter import find_interpreter, program_environment
from dynascope_server.lsp.progress import ProgressBar
from dynascope_server.lsp.runs import Refused
from dynascope_server.process_tree import signal_each, signal_tree

if TYPE_CHECKING:
    from dynascope_server.lsp.server import DynascopeServer

logger = logging.getLogger(__name__)

LIMIT_SECONDS = 600.0
"""For all that is tried of one program; each run of it has a limit of its own."""
LAST_SECONDS = 300.0
"""For what is being tried then."""
TRYING = "dynascope: trying "
"""How the engine begins a line about what it tries."""


@dataclass(slots=True)
class _Search:
    token: str
    process: subprocess.Popen[bytes] | None = None
    cancelled: bool = False
    is_late: bool = False
    """It did not end in its time."""

    def end(self) -> None:
        self.cancelled = True
        if self.process is not None:
            signal_each(signal_tree(self.process.pid, signal.SIGKILL), signal.SIGKILL)


class FixSearches:
    """By program: what was proved, and what is being looked for."""

    def __init__(self, server: DynascopeServer) -> None:
        self._server = server
        self._found: dict[str, Fixes] = {}
        self._going: dict[str, _Search] = {}
        self._count = 0

    def offers(self, path: str, first: int, last: int) -> list[Offer]:
        found = self._found.get(self._server.session.program_of(path) or path)
        return list(offers_at(found, path, self._server.text_of, first, last)) if found is not None else []

    def forget(self, programs: list[str]) -> None:
        for program in programs:
            self._found.pop(program, None)

    def cancel_token(self, token: str) -> None:
        for search in self._going.values():
            if search.token == token:
                search.end()

    def kill_all(self) -> None:
        for search in list(self._going.values()):
            search.end()

    async def find(self, path: str) -> dict[str, Any]:
        """Raises `Refused`."""
        server = self._server
        program = server.session.program_of(path) or path
        command, environment = self._command(program)
        self._count += 1
        search = _Search(f"dynascope-{os.getpid()}-fixes-{self._count}")
        self._going[program] = search
        progress = ProgressBar(server, search.token, f"Dynascope: proving fixes of {os.path.basename(program)}")
        progress.report("running it with and without each edit")
        texts = {file: server.text_of(file) for file in server.session.texts_of(program) or [program]}
        loop = asyncio.get_running_loop()

        def tell(words: str) -> None:
            loop.call_soon_threadsafe(progress.report, words)

        try:
            code, written, errors = await asyncio.to_thread(self._run, search, command, environment, program, texts, tell)
        finally:
            del self._going[program]
            progress.end("")
        if search.is_late:
            raise Refused(f"No fix was proved in {(LIMIT_SECONDS + LAST_SECONDS) / 60:g} minutes; not all were tried.")
        if search.cancelled:
            return {"fixes": 0, "message": "cancelled"}
        try:
            found = read_fixes(json.loads(written))
        except (ValueError, KeyError, TypeError):
            raise Refused(f"Fixes could not be looked for: {errors[-1] if errors else f'exit code {code}'}") from None
        self._found[program] = found
        message = told(found)
        server.tell("information", f"Dynascope: {message}")
        return {"fixes": len(found.fixes), "message": message}

    def _command(self, program: str) -> tuple[list[str], dict[str, str]]:
        server, settings = self._server, self._server.settings
        if not settings.trusted:
            raise Refused("This workspace is not trusted, so nothing in it is run. Trust it to look for fixes.")
        if program in self._going:
            raise Refused(f"Fixes of {os.path.basename(program)} are being looked for already.")
        if not os.path.isfile(program):
            raise Refused(f"{program} is no file on disk. Save it first.")
        environment = program_environment(settings, os.environ)
        interpreter = find_interpreter(settings, server.folder_of(program), environment.get("PATH"))
        if interpreter is None:
            raise Refused("No Python interpreter was found. Name one that has torch in Dynascope's settings.")
        report = server.session.report_of(program)
        device = ["--device", settings.run.device] if settings.run.device else []
        limit = ["--timeout", f"{settings.run.timeout}"] if settings.run.timeout else []
        arguments = report.program.arguments if report is not None else settings.run.arguments
        command = [
            interpreter,
            "-m",
            "dynascope",
            "fix",
            "--json",
            "--texts",
            "--within",
            f"{LIMIT_SECONDS:g}",
            *device,
            *limit,
            program,
            "--",
            *arguments,
        ]
        return command, environment

    def _run(
        self,
        search: _Search,
        command: list[str],
        environment: dict[str, str],
        program: str,
        texts: dict[str, str],
        tell: Callable[[str], None],
    ) -> tuple[int, bytes, list[str]]:
        """Its exit code, what it wrote, and its complaints; what it tries is told at once."""
        search.process = subprocess.Popen(
            command,
            cwd=self._server.folder_of(program),
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        complaints: list[str] = []
        stream, search.process.stderr = search.process.stderr, None  # read as it comes, so not by `communicate`
        reader = threading.Thread(target=_read, args=(stream, tell, complaints), daemon=True)
        reader.start()
        try:
            written, _ = search.process.communicate(json.dumps(texts).encode(), timeout=LIMIT_SECONDS + LAST_SECONDS)
        except subprocess.TimeoutExpired:
            search.end()
            search.is_late = True
            written, _ = search.process.communicate()
        reader.join()
        return search.process.returncode, written, complaints


def _read(stream: IO[bytes], tell: Callable[[str], None], complaints: list[str]) -> None:
    with stream:
        for line in stream:
            words = line.decode(errors="replace").rstrip()
            if words.startswith(TRYING):
                tell(words.removeprefix(TRYING))
            elif words:
                complaints.append(words)
