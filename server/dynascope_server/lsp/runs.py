"""The runs that are going on: one for each file at most, a few at once; others wait their turn."""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from dynascope_server.ide.lenses import Activity
from dynascope_server.interpreter import find_interpreter, program_environment
from dynascope_server.lsp.run import Run
from dynascope_server.worker import Launch

if TYPE_CHECKING:
    from dynascope_server.lsp.server import DynascopeServer

logger = logging.getLogger(__name__)


Look = Literal["check", "profile"]
"""Each line beside eager and float64; what each kernel and line costs."""


class Refused(Exception):
    """The message says why nothing was run, and what to do."""


class Runs:
    def __init__(self, server: DynascopeServer):
        self._server = server
        self._numbers = itertools.count(1)
        self._running: dict[str, Run] = {}
        self._last: str | None = None
        self._arguments: dict[str, tuple[str, ...]] = {}
        """Those that a program was started with last."""
        self._turn = asyncio.Condition()
        self._taken = 0

    def start(self, path: str, arguments: tuple[str, ...] | None, look: Look | None = None, test: str = "") -> Run:
        """Raises `Refused`. The run goes on in the background. `look`: what is found out besides; `test`: that of the file alone."""
        launch = replace(self._launch(path, arguments, look), test=test)
        run = Run(self._server, f"r{next(self._numbers)}", launch)
        self._running[path] = run
        self._last = path
        self._arguments[path] = launch.arguments
        self._server.session.begin(path)
        run.task = asyncio.create_task(self._go(run))
        return run

    def arguments_of(self, path: str) -> tuple[str, ...] | None:
        """With which a program runs again; None where the settings say."""
        return self._arguments.get(path)

    def cancel(self, path: str | None) -> list[str]:
        """Ends the run of one file, or all; returns the files."""
        chosen = [run for run in self._running.values() if path is None or run.path == path]
        for run in chosen:
            run.cancel()
        return [run.path for run in chosen]

    def cancel_token(self, token: str) -> None:
        for run in list(self._running.values()):
            if run.token == token:
                run.cancel()

    def kill_all(self) -> None:
        """The server is going: nothing it started stays."""
        for run in list(self._running.values()):
            run.worker.kill_now()

    def activity(self, path: str) -> Activity:
        return "running" if path in self._running else "idle"

    def default_path(self) -> str | None:
        """The file meant when none is named: the only one running, else the last that ran."""
        return next(iter(self._running)) if len(self._running) == 1 else self._last

    def describe(self) -> list[str]:
        return [f"{run.identifier} {run.state} {run.path}" for run in self._running.values()]

    def _launch(self, path: str, arguments: tuple[str, ...] | None, look: Look | None) -> Launch:
        settings, server = self._server.settings, self._server
        if not settings.trusted:
            raise Refused("This workspace is not trusted, so nothing in it is run. Trust it to compile and run.")
        if path in self._running:
            raise Refused(f"{os.path.basename(path)} is running already. Cancel that run first.")
        if not os.path.isfile(path):
            raise Refused(f"{path} is no file on disk. Save it first.")
        folder = server.folder_of(path)
        environment = program_environment(settings, os.environ)
        interpreter = find_interpreter(settings, folder, environment.get("PATH"))
        if interpreter is None:
            raise Refused("No Python interpreter was found. Name one that has torch in Dynascope's settings.")
        log, report = server.new_run(path)
        return Launch(
            interpreter=interpreter,
            file=path,
            folder=folder,
            options=(*settings.run.options(), *([f"--{look}"] if look else [])),
            arguments=settings.run.arguments if arguments is None else arguments,
            environment=environment,
            log=log,
            report=report,
            timeout=settings.run.timeout,
            kept=server.live.begin(path, folder),
        )

    async def _go(self, run: Run) -> None:
        """A run always ends with its last words, unless the server itself is going."""
        try:
            if await self._take_turn(run):
                try:
                    await run.go()
                finally:
                    await self._give_turn()
        except Exception as error:
            logger.exception("run %s of %s failed", run.identifier, run.path)
            run.break_down(error)
        del self._running[run.path]
        run.finish()
        self._server.live.run_ended(run.path)

    async def _take_turn(self, run: Run) -> bool:
        """False where the run was cancelled while it waited."""
        run.announce("waiting for another run to end" if self._full() else "starting Python")
        waker = asyncio.create_task(self._wake_when_cancelled(run))
        try:
            async with self._turn:
                await self._turn.wait_for(lambda: run.cancelled.is_set() or not self._full())
                if run.cancelled.is_set():
                    return False
                self._taken += 1
                return True
        finally:
            waker.cancel()

    async def _give_turn(self) -> None:
        async with self._turn:
            self._taken -= 1
            self._turn.notify_all()

    async def _wake_when_cancelled(self, run: Run) -> None:
        await run.cancelled.wait()
        async with self._turn:
            self._turn.notify_all()

    def _full(self) -> bool:
        return self._taken >= max(1, self._server.settings.maximumRuns)
