"""One run as the client sees it: its state, its output, its results as they come in, and how it ended."""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dynascope.report.reason import Explanation

from dynascope_server.events import Event, ReportWritten, Stage
from dynascope_server.ide.findings_of_looks import found_out
from dynascope_server.ide.lenses import summary
from dynascope_server.ide.problems import machine_notes
from dynascope_server.lsp.progress import ProgressBar
from dynascope_server.lsp.run_states import counted
from dynascope_server.output import Batch
from dynascope_server.report_file import UnreadableReport, read_report
from dynascope_server.verdict import Seen, State, Verdict, failed, judge, refused_arguments
from dynascope_server.worker import Launch, Worker

if TYPE_CHECKING:
    from dynascope_server.lsp.server import DynascopeServer

STATE_SECONDS = 0.1
"""Between two notes of a new stage: a run passes thousands."""
REPORT_SECONDS = 0.3
"""Between two readings of the report while the program runs."""


class Run:
    """Listens to its worker."""

    def __init__(self, server: DynascopeServer, identifier: str, launch: Launch):
        self._server = server
        self._launch = launch
        self.identifier = identifier
        self.path = launch.file
        self.worker = Worker(launch, self)
        self.cancelled = asyncio.Event()
        self.state: State = "starting"
        self.task: asyncio.Task | None = None
        self.token = f"dynascope-{os.getpid()}-{identifier}"
        self._started = time.monotonic()
        self._stage: Stage | None = None
        self._stage_told: Stage | None = None
        self._message = ""
        self._seen: Seen | None = None
        self._failure: Explanation | None = None
        self._report_written = asyncio.Event()
        self._progress = ProgressBar(server, self.token, f"Dynascope: {os.path.basename(self.path)}")

    @property
    def doing(self) -> str:
        return f"{self._stage.stage} · {self._stage.function}" if self._stage else ""

    @property
    def _running(self) -> str:
        return f"running {os.path.basename(self.path)}"

    @property
    def _is_over(self) -> bool:
        return self.state in ("exited", "errored")

    @property
    def _refused(self) -> str:
        return refused_arguments(self._seen) if self._seen is not None and self.state == "exited" else ""

    @property
    def handle(self) -> dict[str, str]:
        """What a client needs to follow the run."""
        return {"run": self.identifier, "logFile": f"{self._launch.log}", "reportFile": f"{self._launch.report}"}

    def cancel(self) -> None:
        self.cancelled.set()
        self.worker.cancel()

    def output(self, batch: Batch) -> None:
        self._server.send_output(self.path, self.identifier, batch, self._launch.log)

    def event(self, event: Event) -> None:
        match event:
            case Stage():
                self._stage = event
            case ReportWritten():
                self._stage = None  # what was compiled is in the report; the program itself goes on
                self._report_written.set()

    async def go(self) -> None:
        """Runs the program to its end and takes in what it found."""
        self.state = "running"
        self.announce(self._running)
        helpers = [asyncio.create_task(self._tell_stages()), asyncio.create_task(self._follow_report())]
        try:
            self._seen = await self.worker.run()
        except OSError as error:
            self._conclude(_no_interpreter(self._launch.interpreter, error))
            return
        finally:
            for helper in helpers:
                helper.cancel()
        trouble = await self._read_report()
        verdict = judge(self._seen)
        unexplained = verdict.failure is None and not self._seen.cancelled
        self._conclude(trouble if trouble is not None and unexplained else verdict)
        self._tell_machine_notes()
        if trouble is None:
            self._server.keep_for_the_next_window(self.path, self._launch.report, self._launch.folder)

    def break_down(self, error: Exception) -> None:
        """A defect of the server's own must not take the server with it."""
        self._conclude(failed("server-defect", f"The server could not follow the run: {error!r}.", "See its log."))

    def finish(self) -> None:
        """The last words, after which the file may be run again."""
        if self.state not in ("exited", "errored"):
            self.state = "exited"
        self._message = self._ending()
        self._progress.end(self._message)
        try:
            self._server.results_changed(self.path)
        finally:
            self._notify()

    def announce(self, message: str) -> None:
        self._message = message
        self._progress.report(self.doing or message)
        self._notify()
        self._server.lens_refresh.changed()

    def _conclude(self, verdict: Verdict) -> None:
        self.state = verdict.state
        self._failure = verdict.failure
        if verdict.failure is not None:
            self._server.session.fail(self.path, verdict.failure)
            self._server.tell(verdict.failure.severity, _words(verdict.failure))

    def _tell_machine_notes(self) -> None:
        """What is wrong with the machine lies on no line where a person would look."""
        report = self._server.session.report_of(self.path)
        for note in machine_notes(report) if report is not None else ():
            if note != self._failure and note.severity in ("error", "warning"):
                self._server.tell_once(note.severity, _words(note))

    def _ending(self) -> str:
        if self.cancelled.is_set():
            return "cancelled"
        if self._failure is not None and self.state == "errored":
            return self._failure.message
        report = self._server.session.report_of(self.path)
        code = self._seen.return_code if self._seen is not None else None
        parts = [f"exit code {code}" if code else "", self._refused, *([summary(report), found_out(report)] if report else [])]
        return " · ".join(part for part in parts if part) or "done"

    async def _tell_stages(self) -> None:
        while True:
            await asyncio.sleep(STATE_SECONDS)
            if self._stage is not self._stage_told:
                self._stage_told = self._stage
                self._message = self.doing or self._running
                self._progress.report(self._message)
                self._notify()

    async def _follow_report(self) -> None:
        while True:
            await self._report_written.wait()
            self._report_written.clear()
            if await self._read_report() is None:
                self._server.results_changed(self.path)
            await asyncio.sleep(REPORT_SECONDS)

    async def _read_report(self) -> Verdict | None:
        """None where the report was taken in; else what is wrong with it."""
        try:
            report = await asyncio.to_thread(read_report, self._launch.report, self._launch.folder)
        except UnreadableReport as error:
            return failed(error.code, f"{error}", error.remedy)
        if self._launch.test:  # the program is pytest; the report is the file's
            report = replace(report, program=replace(report.program, file=self.path))
        self._server.session.accept(self.path, report)
        return None

    def _notify(self) -> None:
        self._server.run_states.tell(self.path, self._state_note())

    def _state_note(self) -> dict[str, Any]:
        report = self._server.session.report_of(self.path)
        note: dict[str, Any] = {
            "uri": self._server.uri_of(self.path),
            "state": self.state,
            "message": self._message,
            **counted(report, self._is_over),
            **self.handle,
        }
        if self.state == "running" and self._stage is not None:
            note |= {"stage": self._stage.stage, "function": self._stage.function}
        if self.state in ("exited", "errored"):
            note |= {"cancelled": self.cancelled.is_set(), "seconds": round(time.monotonic() - self._started, 3)}
            code = self._seen.return_code if self._seen is not None else None
            note |= {} if code is None else {"exitCode": code} if code >= 0 else {"signal": -code}
            note |= {"refusedArguments": self._refused} if self._refused else {}
        return note


def _words(explanation: Explanation) -> str:
    return f"Dynascope: {explanation.message} {explanation.remedy}".rstrip()


def _no_interpreter(interpreter: str, error: OSError) -> Verdict:
    message = f"Python cannot be started as `{interpreter}`: {error.strerror or error}."
    return failed("no-interpreter", message, "Name a Python that has torch in Dynascope's settings.")
