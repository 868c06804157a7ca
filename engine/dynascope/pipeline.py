"""The story of one compilation, every stage in order. The only module that knows capture and kernels both.

    f(x) is called, no entry's guards hold
        capture        bytecode -> graph, guards, exit
        differentiate  graph -> ATen forward and backward
        lower          ATen -> loops
        fuse           loops -> groups
        emit           groups -> kernel text
        build          text -> machine code
        assemble       graph function + effects + exit -> new bytecode
        guard          guards -> the compiled check
    the entry is remembered in its table; its account goes to the recorder

No stage raises past this module on a user's program: what fails is said, and the function runs as it was written.
"""

from __future__ import annotations

import threading
import time
import types
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from dynascope import recording
from dynascope.account import account_of
from dynascope.backends import backend_name, find_backend
from dynascope.capture import (
    Captured,
    CapturedGraph,
    CaptureOptions,
    CodeRegion,
    Refused,
    assemble,
    capture,
    without_function_modes,
)
from dynascope.configuration import Options
from dynascope.frame import hook
from dynascope.graph_compiler import CompiledGraph, NumberNeeded, compile_graph
from dynascope.guards.check import compile_guards
from dynascope.guards.guard import Equals, Guard
from dynascope.guards.source import FrameValues, Source
from dynascope.reasons import BackendFailed, EngineError, RecompileLimit
from dynascope.report.reason import Explanation

_compiling = threading.RLock()
"""One compilation at a time in a process: capture reads the program's objects, and two at once would gain nothing."""


Accepts = Callable[[FrameValues, Callable[[], None]], bool]


class GraphBreakError(RuntimeError):
    """`fullgraph=True` and the graph breaks; the message names the place, the reason and the remedy."""

    def __init__(self, explanation: Explanation) -> None:
        place = f"\n  at {explanation.span}: {explanation.span.text()}" if explanation.span else ""
        frames = "".join(f"\n    {frame}" for frame in explanation.stack)
        stack = f"\n  user stack:{frames}" if frames else ""
        super().__init__(f"[{explanation.code}] {explanation.message}{place}{stack}\n  remedy: {explanation.remedy}")
        self.explanation = explanation


@dataclass(frozen=True)
class Compilation:
    """The artefacts of one compilation, kept only while a recorder wants to read them."""

    region: CodeRegion
    outcome: Captured | Refused
    graph: CompiledGraph | None
    seconds: dict[str, float]
    recompiled: Explanation | None
    options: Options
    code: types.CodeType | None = None


@dataclass(eq=False)
class RegionState:
    """What one region has compiled so far. `symbolic` are the places whose number changed: inputs from now on."""

    region: CodeRegion
    options: Options
    accepts: Accepts | None = None
    guards: list[tuple[Guard, ...]] = field(default_factory=list)
    symbolic: set[Source] = field(default_factory=set)
    fixed: set[Source] = field(default_factory=set)
    """Places whose number an operator needs as a constant: never inputs."""


def make_table(function: types.FunctionType, options: Options, accepts: Accepts | None = None) -> hook.EntryTable:
    """The table of a function's entries; `table.bind(function)` is the compiled function.

    `accepts(values, give_up)` says whether a call is worth compiling for; without it, every call is.
    """
    return _table(
        function.__code__, RegionState(CodeRegion(function.__code__, function.__qualname__), options, accepts)
    )


def _table(code: types.CodeType, state: RegionState) -> hook.EntryTable:
    def on_miss(table: hook.EntryTable, function: Callable, values: FrameValues) -> hook.Entry | None:
        if state.accepts is not None and not state.accepts(values, table.give_up):
            return None
        with _compiling, hook.suspended():
            return compile_region(table, state, values)

    hook.use_values(FrameValues)
    return hook.EntryTable(code, on_miss)


def _resumed_table(code: types.CodeType, state: RegionState) -> hook.EntryTable:
    table = _table(code, state)
    table.resumed = True
    return table


def compile_region(table: hook.EntryTable, state: RegionState, values: FrameValues) -> hook.Entry | None:
    """Compile the region for `values` and add the entry to its table. None: this call runs as it was written."""
    recompiled = _why_again(state, values)
    if len(state.guards) >= state.options.recompile_limit:
        _give_up(table, state, recompiled)
        return None
    clock = Clock(state.region)
    try:
        return _compile(table, state, values, clock, recompiled)
    except GraphBreakError:
        raise
    except Exception as error:
        table.give_up()
        _note(EngineError.of(clock.stage, state.region.qualified_name, error).explain(state.region.span))
        return None


def _compile(table, state: RegionState, values: FrameValues, clock: Clock, recompiled) -> hook.Entry | None:
    outcome, graph = _capture_and_compile(state, values, clock)
    if isinstance(outcome, Refused):
        table.give_up()
        _record(Compilation(state.region, outcome, None, clock.seconds, recompiled, state.options))
        if state.options.fullgraph:
            raise GraphBreakError(outcome.explain())
        return None
    with clock("assemble"):
        run = graph.function if graph is not None else None
        code = assemble(
            outcome, run, lambda resumed, region: _resumed_table(resumed, RegionState(region, state.options))
        )
    with clock("guard"):
        program = compile_guards(outcome.guards, state.region.code)
    entry = hook.Entry(program, code, None, values.globals)
    state.guards.append(outcome.guards)
    table.add(entry)
    _record(Compilation(state.region, outcome, graph, clock.seconds, recompiled, state.options, code))
    return entry


def _capture_and_compile(state: RegionState, values: FrameValues, clock: Clock) -> tuple[Any, CompiledGraph | None]:
    """The captured region and its graph. A number that an operator needs as a constant is fixed, and capture starts again."""
    while True:
        with clock("capture"):
            outcome = capture(state.region, values, capture_options(state))
        if isinstance(outcome, Refused) or outcome.graph is None:
            return outcome, None
        try:
            return outcome, _compile_captured(outcome.graph, state, clock)
        except NumberNeeded as needed:
            state.fixed.add(outcome.graph.sources[needed.index])


def capture_options(state: RegionState) -> CaptureOptions:
    options = state.options
    return CaptureOptions(
        fullgraph=options.fullgraph,
        dynamic=options.dynamic,
        symbolic=frozenset(state.symbolic - state.fixed),
        fixed=frozenset(state.fixed),
        instruction_limit=options.inline_limit,
    )


def _compile_captured(captured: CapturedGraph, state: RegionState, clock: Clock) -> CompiledGraph:
    """The captured graph through our stages, or through the backend that was asked for."""
    backend = find_backend(state.options.backend)
    if backend is None:
        name = state.region.qualified_name
        with without_function_modes(), outside_inference_mode():
            return compile_graph(captured.module, captured.example_inputs, state.options, name, clock)
    with clock("backend"):
        try:
            return CompiledGraph(backend(captured.module, list(captured.example_inputs)), captured.module)
        except Exception as error:
            note = BackendFailed(backend_name(backend), type(error).__name__, str(error)).explain(state.region.span)
            warnings.warn(f"dynascope: {note.message} {note.remedy}", stacklevel=2)
            return CompiledGraph(captured.module.forward, captured.module, notes=(note,))


@contextmanager
def outside_inference_mode() -> Iterator[None]:
    """Tensors made in inference mode count no versions, which is how writes to them are found."""
    if not torch.is_inference_mode_enabled():
        yield
        return
    with torch.inference_mode(False), torch.no_grad():
        yield


def _why_again(state: RegionState, values: FrameValues) -> Explanation | None:
    """Why no earlier entry serves: the guard of the latest one that failed. A number that changed becomes an input."""
    if not state.guards:
        return None
    from dynascope.guards.failure import explain_failure
    from dynascope.reasons import GuardFailed

    latest = None
    for guards in state.guards:
        failure = explain_failure(guards, values)
        if failure is None:
            continue
        guard, text = failure
        if state.options.dynamic is not False and isinstance(guard.predicate, Equals):
            state.symbolic.update(source for source in guard.sources if is_number(source, values))
        latest = GuardFailed(text).explain(guard.span or state.region.span, guard.stack)
    return latest


def is_number(source: Source, values: FrameValues) -> bool:
    try:
        return type(source.read(values)) in (int, float)
    except Exception:
        return False


def _give_up(table: hook.EntryTable, state: RegionState, latest: Explanation | None) -> None:
    table.give_up()
    reason = RecompileLimit(state.region.qualified_name, len(state.guards), latest.message if latest else "")
    _note(reason.explain(latest.span if latest and latest.span else state.region.span))


def _record(compilation: Compilation) -> None:
    recorder = recording.current()
    if recorder is not None:
        recorder.add(account_of(compilation, recorder))


def _note(explanation: Explanation) -> None:
    recorder = recording.current()
    if recorder is not None:
        recorder.problem(explanation)
    elif explanation.severity == "error":
        warnings.warn(f"dynascope: {explanation.message} {explanation.remedy}", stacklevel=2)


class Clock:
    """Wall seconds by stage, and the stage that runs now, said to whoever listens."""

    def __init__(self, region: CodeRegion) -> None:
        self.seconds: dict[str, float] = {}
        self.stage = "capture"
        self._region = region

    @contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        self.stage = stage
        recorder = recording.current()
        if recorder is not None:
            recorder.events.stage(stage, self._region.qualified_name, self._region.span)
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[stage] = self.seconds.get(stage, 0.0) + time.perf_counter() - start
