"""The record of one run: what the pipeline compiled, kept until somebody reads the report.

The pipeline hands over an account, a function that reads facts off the artefacts of one compilation. It is called when the
report is written, not while the program waits. Without a recorder nothing is kept.
"""

from __future__ import annotations

import itertools
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from dynascope.callers import OWN_FOLDER
from dynascope.configuration import config
from dynascope.dataclass import dataclass
from dynascope.report.events import EventStream
from dynascope.report.facts import (
    BesideEager,
    CheckFact,
    CompileReport,
    EntryFact,
    EnvironmentFact,
    FunctionFact,
    GraphFact,
    KernelFact,
    ProgramFact,
    StageText,
)
from dynascope.report.reason import Explanation
from dynascope.report.span import Span, UserFrame
from dynascope.report.stages import in_order
from dynascope.report.user_files import is_user_file
from dynascope.strictness import judge

WRITE_INTERVAL = 0.25
"""Seconds between two writings of the report while the program runs; more when writing itself takes long."""


FunctionKey = tuple[str, Span, Span | None]
"""Its name, where it stands, and who asked for it to be compiled."""
Uses = Callable[[], tuple[int, int]]


@dataclass(frozen=True)
class Account:
    """The facts of one compilation. Identifiers inside are the ones the recorder gave out."""

    function: str
    function_span: Span
    entry: EntryFact
    graph: GraphFact | None = None
    kernels: tuple[KernelFact, ...] = ()
    compiled_at: Span | None = None
    region: int = 0
    """Tells regions of one function apart; 0 for the function's start."""
    identifier: str = ""
    began: str = ""
    """Of a region after a break: the account of the start whose call came here."""
    uses: Uses = lambda: (0, 0)
    """How often the entry has run by now, and its place among the latest uses of all."""
    costs: Callable[[GraphFact, tuple[KernelFact, ...]], tuple[GraphFact, tuple[KernelFact, ...]]] | None = None
    """Adds what was measured by now, where the program is profiled."""
    levels: Callable[[], tuple[StageText, ...]] | None = None
    """Texts of levels that nothing runs, where they are wanted: to be made when the program has ended."""

    def with_levels(self) -> Account:
        if self.graph is None or self.levels is None:
            return self
        texts = in_order((*self.graph.texts, *self.levels()))
        return replace(self, graph=replace(self.graph, texts=texts), levels=None)

    def measured(self) -> tuple[GraphFact | None, tuple[KernelFact, ...]]:
        if self.graph is None or self.costs is None:
            return self.graph, self.kernels
        return self.costs(self.graph, self.kernels)


class Recorder:
    """Collects accounts and keeps the report file current. `path` None: nothing is written, `report()` is asked for.

    `keep_graph` is given each captured graph (a `torch.fx.GraphModule`), in order; `keep_call` each region that was compiled
    from a function's start, with the frame's values.
    """

    def __init__(
        self,
        file: str = "",
        arguments: Iterable[str] = (),
        path: Path | None = None,
        events: EventStream | None = None,
        keep_graph: Callable[[Any], None] | None = None,
        keep_call: Callable[[Any, Any], None] | None = None,
    ) -> None:
        self.keep_graph = keep_graph
        self.keep_call = keep_call
        self.check: Callable[..., Callable] | None = None
        """Takes the place of a compiled graph's function, and finds out whether it is right (`dynascope.checking`)."""
        self.checks: list[CheckFact] = []
        self.beside_eager: dict[int, BesideEager] = {}
        """By the identity of a captured graph's module; filled by a `check` that measures."""
        self.bandwidth: float | None = None
        self.events = events or EventStream(None)
        self._path = path
        self._program = ProgramFact(file, tuple(arguments))
        self._pending: list[Callable[[], Account]] = []
        self._accounts: list[Account] = []
        self._starts: dict[FunctionKey, list[tuple[str, Uses]]] = {}
        self._notes: list[Explanation] = []
        self._counts = {"g": 0, "k": 0, "e": 0}
        self._lock = threading.RLock()
        self._started = time.perf_counter()
        self._process = os.getpid()
        self._dirty = threading.Event()
        self._writer: threading.Thread | None = None
        self._followed = _followed_calls()

    def identifier(self, kind: str) -> str:
        """The next free identifier: `g0`, `g1` for graphs, `k0` for kernels, `e0` for compilations."""
        with self._lock:
            number = self._counts[kind]
            self._counts[kind] += 1
        return f"{kind}{number}"

    def start_of(self, function: FunctionKey, identifier: str, is_start: bool, uses: Uses) -> str:
        """The account of the function's start that the call at hand began with: of all of them the one used last."""
        starts = self._starts.setdefault(function, [])
        if is_start:
            starts.append((identifier, uses))
        return max(starts, key=lambda start: start[1]()[1])[0] if starts else ""

    def compiled(self, compilation: Any, account_of: Callable[[Any, Recorder], Callable[[], Account]]) -> None:
        """A compilation's artefacts, and what reads an account off them."""
        self.add(account_of(compilation, self))

    def keep(self, state: Any, values: Any) -> None:
        """The call, for whoever wants it. Not while the report is being written: a fork would inherit what that thread holds."""
        if self.keep_call is not None:
            with self._lock:
                self.keep_call(state, values)

    def add(self, account: Callable[[], Account]) -> None:
        if os.getpid() != self._process:
            return
        with self._lock:
            self._pending.append(account)
        self._note_rank()
        self._write_soon()

    def _note_rank(self) -> None:
        """While the process is in its group: a program may leave it before it ends."""
        rank = rank_in_group()
        if rank is not None and rank != self._program.rank:
            self._program = replace(self._program, rank=rank)

    def problem(self, explanation: Explanation) -> None:
        if os.getpid() != self._process:
            return
        with self._lock:
            self._notes.append(explanation)
        self.events.problem(explanation)
        self._write_soon()

    def program_raised(self, error: BaseException) -> None:
        self._program = replace(self._program, error=explain_exception(error, self._program.file))

    def program_asks(self, asks: bool) -> None:
        """Whether the program compiles something itself, or its functions are to be found."""
        self._program = replace(self._program, asks=asks)

    def finish(self, exit_code: int | None, signal: int | None = None) -> None:
        """The program has ended: write the last report. A forked child of the program has no report of its own."""
        if os.getpid() != self._process:
            return
        seconds = time.perf_counter() - self._started
        peak = peak_bytes()
        self._program = replace(self._program, exit_code=exit_code, signal=signal, seconds=seconds, peak_bytes=peak)
        self._note_rank()
        if self._program.rank is None:
            self._program = replace(self._program, rank=rank_of_process())
        self.write()

    def read_levels(self) -> None:
        """The program has ended, and torch still has all of its operators: those that are written in Python go as the interpreter does.
        """
        if os.getpid() != self._process:
            return
        with self._lock:
            self._settle()
            self._accounts = [self._tried(account.with_levels, account) for account in self._accounts]

    def report(self) -> CompileReport:
        with self._lock:
            self._settle()
            measured = [account.measured() for account in self._accounts]
            return CompileReport(
                program=self._program,
                environment=replace(environment(), bandwidth=self.bandwidth),
                functions=_functions(self._accounts),
                graphs=tuple(graph for graph, _ in measured if graph is not None),
                kernels=tuple(kernel for _, kernels in measured for kernel in kernels),
                checks=tuple(self.checks),
                notes=tuple(dict.fromkeys((*self._notes, *(_standing_notes() if self._accounts else ()), *_followed_note(self._followed)))),
            )

    def write(self) -> None:
        if self._path is None:
            return
        with self._lock:
            from dynascope.report.store import write_report

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
            made = self._tried(account, None)
            if made is not None:
                self._accounts.append(made)

    def _tried(self, make: Callable[[], Account], instead: Account | None) -> Any:
        try:
            return make()
        except Exception as error:
            from dynascope.reasons import EngineError

            note = EngineError.of("report", getattr(instead, "function", "?"), error).explain()
            self._notes.append(note)
            judge(note, config.strict, error)
        return instead

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
    from dynascope.command.reasons import NoSuchBackend, ProgramError

    if isinstance(error, SyntaxError) and error.filename:
        return ProgramError(type(error).__name__, error.msg).explain(_syntax_span(error))
    backends = sys.modules.get("dynascope.backends")
    is_unknown = backends is not None and isinstance(error, backends.UnknownBackend)
    named = NoSuchBackend if is_unknown else ProgramError
    reason = named(type(error).__name__, str(error))
    stack = tuple(
        UserFrame(frame.name, Span(frame.filename, frame.lineno, frame.colno, frame.end_lineno, frame.end_colno))
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.lineno is not None
    )
    # A step that Python runs itself has a frame of its own, at the place of the function that it is a part of.
    stack = tuple(frame for number, frame in enumerate(stack, 1) if stack[number : number + 1] != (frame,))
    # Who runs the program (pytest, runpy) is no part of it.
    stack = tuple(itertools.dropwhile(lambda frame: not is_user_file(frame.span.file), stack)) or stack
    own = [
        frame
        for frame in stack
        if os.path.dirname(os.path.abspath(frame.span.file)) == os.path.dirname(os.path.abspath(file))
    ]
    return reason.explain((own or list(stack) or [UserFrame("", Span(file, 1))])[-1].span, stack)


def _syntax_span(error: SyntaxError) -> Span:
    """The line alone where its text is not ASCII: before 3.13 Python counts there now bytes and now characters."""
    file, line, text, offset = error.filename or "", error.lineno or 1, error.text or "", error.offset or 0
    if not text.isascii() or not 0 < offset <= len(text):
        return Span(file, line)
    end = error.end_offset or 0
    known = error.end_lineno == line and end > offset
    return Span(file, line, offset - 1, line, (end if known else offset + 1) - 1)


def peak_bytes() -> int | None:
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "_C") and torch.cuda.is_initialized():
        return torch.cuda.max_memory_allocated()
    try:
        import resource
    except ImportError:
        return None
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def rank_in_group() -> int | None:
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return distributed.get_rank()


def rank_of_process() -> int | None:
    """What the launcher or the program says; of a process that the program spawned itself its number among them."""
    if os.environ.get("RANK", "").isdigit():
        return int(os.environ["RANK"])
    processes = sys.modules.get("multiprocessing.process")
    identity = getattr(processes.current_process(), "_identity", ()) if processes is not None else ()
    return identity[-1] - 1 if identity else None


def environment() -> EnvironmentFact:
    """What this process runs on, without importing anything for it."""
    import platform
    import sys

    import dynascope
    from dynascope.native.toolchain import find_compiler

    torch, triton = sys.modules.get("torch"), sys.modules.get("triton")
    # A program may have a `torch.py` of its own.
    torch = torch if hasattr(torch, "_C") else None
    compiler = find_compiler()
    return EnvironmentFact(
        python=platform.python_version(),
        torch=str(getattr(torch, "__version__", "")),
        dynascope=dynascope.__version__,
        device=_device_name(torch),
        compiler=compiler.title if compiler else None,
        triton=getattr(triton, "__version__", None),
    )


def _standing_notes() -> tuple[Explanation, ...]:
    """What holds for the whole process: a cache that cannot be used, newer versions, and what stands in for what."""
    from dynascope.native.cache import cache_note
    from dynascope.process_notes import process_notes

    note = cache_note()
    return (*(() if note is None else (note,)), *process_notes())


def _followed_calls() -> int:
    """How many calls a debugger followed so far. Asked before the engine is there, too, which is imported by whoever compiles first."""
    if "dynascope.frame.hook_native" not in sys.modules:
        return 0
    from dynascope.frame import hook

    return hook.followed_calls()


def _followed_note(since: int) -> tuple[Explanation, ...]:
    """Also where nothing was compiled: this may be why."""
    if _followed_calls() <= since:
        return ()
    from dynascope.frame import hook

    note = hook.followed_note(since)
    return () if note is None else (note,)


def _device_name(torch) -> str:
    if torch is not None and torch.cuda.is_initialized():
        return torch.cuda.get_device_name()
    return "cpu"


def _functions(accounts: list[Account]) -> tuple[FunctionFact, ...]:
    """By place and by who asked: one `forward` of a library compiled for two models is two functions."""
    by_place: dict[FunctionKey, list[tuple[Account, EntryFact]]] = {}
    for account in accounts:
        calls, last_use = account.uses()
        entry = replace(account.entry, calls=calls, last_use=last_use)
        key = (account.function, account.function_span, account.compiled_at)
        by_place.setdefault(key, []).append((account, entry))
    for key, entries in list(by_place.items()):
        # What calls a compiled module inside another function is ours, and computes nothing itself.
        if key[1].file.startswith(OWN_FOLDER) and not any(entry.graph for _, entry in entries):
            del by_place[key]
    return tuple(
        FunctionFact(f"f{i}", name, span, _numbered(f"f{i}", entries), compiled_at)
        for i, ((name, span, compiled_at), entries) in enumerate(by_place.items())
    )


def _numbered(function: str, entries: list[tuple[Account, EntryFact]]) -> tuple[EntryFact, ...]:
    """Places in the order in which they were first reached after the function's start."""
    places = {0: 0}
    for account, _ in entries:
        places.setdefault(account.region, len(places))
    names = {account.identifier: f"{function}.e{number}" for number, (account, _) in enumerate(entries) if account.identifier}
    return tuple(
        replace(
            entry, identifier=f"{function}.e{number}", place=places[account.region], began=names.get(account.began, "")
        )
        for number, (account, entry) in enumerate(entries)
    )
