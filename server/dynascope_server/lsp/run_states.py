"""dynascope/runState: what a run does and has found, for a client's status. While its text is edited: what is known live."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynascope.report.facts import CompileReport
from dynascope.report.lines import breaks_of

from dynascope_server.ide.file_facts import entries
from dynascope_server.ide.lenses import summary
from dynascope_server.ide.problems import problems

if TYPE_CHECKING:
    from dynascope_server.lsp.server import DynascopeServer


class RunStates:
    def __init__(self, server: DynascopeServer) -> None:
        self._server = server
        self._last: dict[str, dict[str, Any]] = {}
        """By program, of its newest run."""

    def tell(self, program: str, note: dict[str, Any]) -> None:
        self._last[program] = note
        self._send(note)

    def restored(self, program: str, whose: str, report: CompileReport, path: str) -> None:
        """A result that is of no run of this window; `path` is where its report lies, empty where it lies nowhere."""
        said = {"uri": self._server.uri_of(program), "state": "restored", "message": f"{whose}: {summary(report)}"}
        self.tell(program, {**said, **counted(report, is_over=True), "run": "", "logFile": "", "reportFile": path})

    def live_changed(self, program: str) -> None:
        """What is shown of the program is no more, or again, what its last run found."""
        note, report = self._last.get(program), self._server.session.shown_report(program)
        if note is None or report is None:
            return
        is_live = self._server.session.is_live(program)
        said = {"message": f"As edited, not run yet: {summary(report)}", **_counted_live(report)} if is_live else {}
        self._send({**note, **said, "live": is_live})

    def forget(self, program: str) -> None:
        """What a run that is over has found is shown no more."""
        note = self._last.get(program)
        if note is not None and note["state"] not in ("starting", "running"):
            del self._last[program]
            self._send({**note, "state": "cleared", "message": "", **counted(None, is_over=True)})

    def _send(self, note: dict[str, Any]) -> None:
        if self._server.settings.client.runState:
            self._server.protocol.notify("dynascope/runState", note)


def _counted_live(report: CompileReport) -> dict[str, int]:
    """Of a run that raised its exit code says so; of an edit that would, only this."""
    raising = sum(p.severity == "error" for p in problems(report))
    found = counted(report, is_over=True)
    return {**found, "warnings": found["warnings"] + raising}


def counted(report: CompileReport | None, is_over: bool) -> dict[str, int]:
    """What a client's status says of a result."""
    if report is None:
        return dict.fromkeys(("functions", "graphs", "breaks", "kernels", "warnings"), 0)
    return {
        "functions": len(report.functions),
        "graphs": len(report.graphs),
        "breaks": breaks_of([entry for _, entry in entries(report)]),
        "kernels": len(report.kernels),
        "warnings": sum(p.severity == "warning" for p in problems(report)) if is_over else 0,
    }
