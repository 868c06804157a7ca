"""The record of one run: what the pipeline compiled, kept until somebody reads the report.

The pipeline hands over an account, a function that reads facts off the artefacts of one compilation. It is called when the
report is written, not while the program waits. Without a recorder nothing is kept.
"""

from __future__ import annotations

import os
import threading
import time
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from dynascope.report.events import EventStream
from dynascope.report.facts import (
    CompileReport,
    EntryFact,
    EnvironmentFact,
    FunctionFact,
    GraphFact,
    KernelFact,
    ProgramFact,
)
from dynascope.report.reason import Explanation
from dynascope.report.span import Span, UserFrame

WRITE_INTERVAL = 0.25
"""Seconds between two writings of the report while the program runs; more when writing itself takes long."""


@dataclass(frozen=True)
class Account:
    """The facts of one compilation. Identifiers inside are the ones the recorder gave out."""

    function: str
    function_span: Span
    entry: EntryFact
    graph: GraphFact | None = None
    kernels: tuple[KernelFact, ...] = ()


class Recorder:
    """Collects accounts and keeps the report file current. `path` None: nothing is written, `report()` is asked for."""

    def __init__(
        self,
        file: str = "",
        arguments: Iterable[str] = (),
        path: Path | None = None,
        events: EventStream | None = None,
    ) -> None:
        self.events = events or EventStream(None)
        self._path = path
        self._program = ProgramFact(file, tuple(arguments))
        self._pending: list[Callable[[], Account]] = []
        self._accounts: list[Account] = []
        self._notes: list[Explanation] = []
        self._counts = {"g": 0, "k": 0}
        self._lock = threading.RLock()
        self._started = time.perf_counter()
        self._process = os.getpid()
        self._dirty = threading.Event()
        self._writer: threading.Thread | None = None

    def identifier(self, kind: str) -> str:
        """The next free identifier: `g0`, `g1` for graphs, `k0` for kernels."""
        with self._lock:
            number = self._counts[kind]
            self._counts[kind] += 1
        return f"{kind}{number}"

    def add(self, account: Callable[[], Account]) -> None:
        if os.getpid() != self._process:
            return
        with self._lock:
            self._pending.append(account)
        self._write_soon()

    def problem(self, explanation: Explanation) -> None:
        with self._lock:
            self._notes.append(explanation)
        self.events.problem(explanation)
        self._write_soon()

    def program_raised(self, error: BaseException) -> None:
        self._program = replace(self._program, error=explain_exception(error, self._program.file))

    def finish(self, exit_code: int | None, signal: int | None = None) -> None:
        """The program has ended: write the last report. A forked child of the program has no report of its own."""
        if os.getpid() != self._process:
            return
        seconds = time.perf_counter() - self._started
        self._program = replace(self._program, exit_code=exit_code, signal=signal, seconds=seconds)
        self.write()

    def report(self) -> CompileReport:
        with self._lock:
            self._settle()
            return CompileReport(
                program=self._program,
                environment=environment(),
                functions=_functions(self._accounts),
                graphs=tuple(a.graph for a in self._accounts if a.graph is not None),
                kernels=tuple(kernel for a in self._accounts for kernel in a.kernels),
                notes=(*self._notes, *(_cache_notes() if self._accounts else ())),
            )

    def write(self) -> None:
        if self._path is None:
            return
        from dynascope.report.store import write_report

        with self._lock:
            self._dirty.clear()
            try:
                write_report(self.report(), self._path)
            except OSError as error:
                self._complain_once(error)
                return
        self.events.report()

    def _settle(self) -> None:
        """Turn pending accounts into facts. One that cannot be read is a defect of ours: it is said, nothing else is lost."""
        pending, self._pending = self._pending, []
        for account in pending:
            try:
                self._accounts.append(account())
            except Exception as error:
                from dynascope.reasons import EngineError

                self._notes.append(EngineError.of("report", getattr(account, "function", "?"), error).explain())

    def _write_soon(self) -> None:
        if self._path is None:
            return
        self._dirty.set()
        if self._writer is None:
            self._writer = threading.Thread(target=self._keep_writing, name="dynascope-report", daemon=True)
            self._writer.start()

    def _keep_writing(self) -> None:
        while True:
            self._dirty.wait()
            before = time.perf_counter()
            self.write()
            time.sleep(max(WRITE_INTERVAL, 10 * (time.perf_counter() - before)))

    def _complain_once(self, error: OSError) -> None:
        import sys

        path, self._path = self._path, None
        print(f"dynascope: the report cannot be written to {path}: {error}", file=sys.stderr)


_current: Recorder | None = None


def use(recorder: Recorder | None) -> Recorder | None:
    """Make `recorder` the one that the pipeline hands accounts to; returns the one before."""
    global _current
    before, _current = _current, recorder
    return before


def current() -> Recorder | None:
    return _current


def explain_exception(error: BaseException, file: str) -> Explanation:
    """The program's own error at the line of the user's file that raised it."""
    from dynascope.command.reasons import ProgramError

    if isinstance(error, SyntaxError) and error.filename:
        return ProgramError(type(error).__name__, error.msg).explain(_syntax_span(error))
    reason = ProgramError(type(error).__name__, str(error))
    stack = tuple(
        UserFrame(frame.name, Span(frame.filename, frame.lineno, frame.colno, frame.end_lineno, frame.end_colno))
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.lineno is not None
    )
    # A step that Python runs itself has a frame of its own, at the place of the function that it is a part of.
    stack = tuple(frame for number, frame in enumerate(stack, 1) if stack[number : number + 1] != (frame,))
    own = [
        frame
        for frame in stack
        if os.path.dirname(os.path.abspath(frame.span.file)) == os.path.dirname(os.path.abspath(file))
    ]
    return reason.explain((own or list(stack) or [UserFrame("", Span(file, 1))])[-1].span, stack)


def _syntax_span(error: SyntaxError) -> Span:
    """The line alone where its text is not ASCII: before 3.13 Python counts there now bytes and now characters."""
    line, text, offset = error.lineno or 1, error.text or "", error.offset or 0
    if not text.isascii() or not 0 < offset <= len(text):
        return Span(error.filename, line)
    known = error.end_lineno == line and (error.end_offset or 0) > offset
    return Span(error.filename, line, offset - 1, line, (error.end_offset if known else offset + 1) - 1)


def environment() -> EnvironmentFact:
    """What this process runs on, without importing anything for it."""
    import platform
    import sys

    import dynascope
    from dynascope.native.toolchain import find_compiler

    torch, triton = sys.modules.get("torch"), sys.modules.get("triton")
    compiler = find_compiler()
    return EnvironmentFact(
        python=platform.python_version(),
        torch=str(getattr(torch, "__version__", "")),
        dynascope=dynascope.__version__,
        device=_device_name(torch),
        compiler=compiler.title if compiler else None,
        triton=getattr(triton, "__version__", None),
    )


def _cache_notes() -> tuple[Explanation, ...]:
    from dynascope.native.cache import cache_note

    note = cache_note()
    return () if note is None else (note,)


def _device_name(torch) -> str:
    if torch is not None and torch.cuda.is_initialized():
        return torch.cuda.get_device_name()
    return "cpu"


def _functions(accounts: list[Account]) -> tuple[FunctionFact, ...]:
    by_place: dict[tuple[str, Span], list[EntryFact]] = {}
    for account in accounts:
        by_place.setdefault((account.function, account.function_span), []).append(account.entry)
    return tuple(
        FunctionFact(f"f{i}", name, span, tuple(replace(e, identifier=f"f{i}.e{j}") for j, e in enumerate(entries)))
        for i, ((name, span), entries) in enumerate(by_place.items())
    )
