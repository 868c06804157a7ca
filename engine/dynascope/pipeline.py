"""The story of one compilation, every stage in order.

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

import functools
import threading
import time
import types
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch._C._dynamo import eval_frame

from dynascope import ranks_apart, recording
from dynascope.attempts import Attempts
from dynascope.autograd_functions import with_freed_history
from dynascope.backends import GraphCompilers, find_backend, numbers_among, run_uncompiled
from dynascope.callers import AskedAt, calling_place, warn
from dynascope.capture import (
    Captured,
    CapturedGraph,
    CaptureOptions,
    CodeRegion,
    RaiseExit,
    Refused,
    Return,
    assemble,
    capture,
    modes_among,
    names_of_modes,
    reason_to_stand_aside,
)
from dynascope.capture.signals import Break
from dynascope.captured_graphs import compile_captured, look_asked_for
from dynascope.compilation import Compilation
from dynascope.configuration import Options
from dynascope.frame import hook
from dynascope.garbage import without_collections
from dynascope.graph_compiler import CompiledGraph, NumberNeeded, OperatorsUnsupported
from dynascope.guards.check import asked_again, compile_guards
from dynascope.guards.failure import explain_failure
from dynascope.guards.global_state import modes_asleep
from dynascope.guards.source import FrameValues
from dynascope.looking import NotRun, stand_in
from dynascope.meta_kernels.quiet_torch import without_saved_tensors_hooks
from dynascope.native.forking import safe_in_children
from dynascope.reasons import CallDidNotFail, EngineError, GuardFailsAtOnce, RecompileLimit
from dynascope.region_state import Accepts, RegionState, asking
from dynascope.repeatable import repeatable
from dynascope.report.reason import Explanation, Reason
from dynascope.report.span import Span
from dynascope.requirements import newer_than_tested
from dynascope.runtime import launching
from dynascope.strictness import ExplainedError, StrictError, judge
from dynascope.why_again import Again, GuardFail, why_again

_compiling = safe_in_children(threading.RLock())
"""One compilation at a time in a process: capture reads the program's objects, and two at once would gain nothing."""


class GraphBreakError(ExplainedError):
    """`fullgraph=True` and the graph breaks; the message names the place, the reason and the remedy."""


def make_table(
    function: types.FunctionType, options: Options, accepts: Accepts | None = None, asked_at: AskedAt = calling_place
) -> hook.EntryTable:
    """The table of a function's entries; `table.bind(function)` is the compiled function.

    `accepts(values, give_up)` says whether a call is worth compiling for, or why it is not; without it, every call is.
    `asked_at()` is where the program asks for it, for a report.
    """
    region = CodeRegion(function.__code__, function.__qualname__)
    asked_here = accepts is None and recording.current() is not None
    compiled_at = asked_at() if asked_here else None
    table = table_of(function.__code__, RegionState(region, options, accepts, compiled_at=compiled_at))
    if accepts is None:
        _beginnings[table] = region.qualified_name, options, compiled_at
    return table


_beginnings: weakref.WeakKeyDictionary[hook.EntryTable, tuple[str, Options, Span | None]] = weakref.WeakKeyDictionary()
"""What the table of a function that the program gave was made of. Not the code: it owns the table."""


def begin_again(table: hook.EntryTable) -> None:
    """Forgets the entries, and all that was learnt from calls so far."""
    name, options, compiled_at = _beginnings[table]
    code = table.code
    if code is not None:
        table.begin_again(_misses_of(RegionState(CodeRegion(code, name), options, compiled_at=compiled_at)))


def table_of(code: types.CodeType, state: RegionState) -> hook.EntryTable:
    return calls_of(code, _misses_of(state))


Misses = Callable[[hook.EntryTable, Callable, FrameValues], hook.Entry | None]
"""Asked for an entry where none serves a call."""


def _misses_of(state: RegionState) -> Misses:
    def on_miss(table: hook.EntryTable, function: Callable, values: FrameValues) -> hook.Entry | None:
        accepted = state.accepts is None or state.accepts(values, table.give_up)
        if accepted is False:
            return None
        reason = accepted if isinstance(accepted, Reason) else reason_to_stand_aside() or modes_among(state.refused_under)
        if reason is not None:
            state.stand_aside(reason)
            return None
        known = len(state.entries)
        with modes_asleep(), _compiling, hook.suspended(), without_saved_tensors_hooks(), without_collections():
            entry = _made_meanwhile(state, known, values) or compile_region(table, state, values)
            if entry is None and state.options.looks_only:
                raise NotRun
            return entry

    return on_miss


def calls_of(code: types.CodeType, on_miss: Misses) -> hook.EntryTable:
    """A table that has no entries yet: it asks for one at each call. Where there is none the call runs as it is written."""
    hook.use_values(FrameValues)
    hook.use_tracer_test(is_read_by_torch)
    return hook.EntryTable(code, on_miss)


def is_read_by_torch() -> bool:
    """Whether torch.compile reads the frames of this thread. It says so in C: its compiler is not imported.

    Where it reads this very function, the first half is a constant to it."""
    return torch.compiler.is_dynamo_compiling() or eval_frame.get_eval_frame_callback() not in (None, False)


def _made_meanwhile(state: RegionState, known: int, values: FrameValues) -> hook.Entry | None:
    """Another thread may have compiled for the same case while this one waited."""
    for guards, (globals_, entry) in zip(state.guards[known:], state.entries[known:], strict=True):
        if globals_ is values.globals and explain_failure(guards, values) is None:
            return entry
    return None


def _resumed_table(code: types.CodeType, state: RegionState) -> hook.EntryTable:
    table = table_of(code, state)
    table.resumed = True
    return table


def compile_region(table: hook.EntryTable, state: RegionState, values: FrameValues) -> hook.Entry | None:
    """Compile the region for `values` and add the entry to its table. None: this call runs as it was written."""
    unfit = _unfit()
    if unfit is not None:
        table.give_up()
        if state.options.fullgraph:
            raise GraphBreakError(unfit.explain(state.region.span))
        _note(unfit.explain())
        return None
    again = why_again(state, values)
    if again is not None and state.options.on_guard_failure is not None:
        state.options.on_guard_failure(GuardFail(again.explanation.message, state.region.root.code))
    if len(state.guards) >= state.options.recompile_limit:
        _give_up(table, state, again.explanation if again else None)
        return None
    if state.refutes is not None:
        judge(state.refutes, state.options.strict)
    clock = Clock(state.region)
    state.table = weakref.ref(table)
    try:
        entry = _compile(table, state, values, clock, again)
    except (GraphBreakError, StrictError):
        raise
    except (Exception, Break) as error:  # a break that left capture is a defect like any, and not the program's
        note = EngineError.of(clock.stage, state.region.qualified_name, error).explain(state.region.span)
        judge(note, state.options.strict, error)
        table.give_up()
        _note(note)
        return None
    if entry is not None and state.options.on_guards is not None:
        state.options.on_guards(list(state.guards[-1]))  # what it raises is the program's
    return entry


@functools.cache
def _unfit() -> Reason | None:
    """Why nothing is captured in this process. Versions that were tested are not tried again."""
    if not newer_than_tested(str(torch.__version__)):
        return None
    from dynascope import self_check

    return self_check.first_failure()


def _compile(table, state: RegionState, values: FrameValues, clock: Clock, again: Again | None) -> hook.Entry | None:
    outcome, graph = _capture_and_compile(state, values, clock)
    if isinstance(outcome, Captured):
        state.note_sizes(outcome.sizes.seen)
        outcome = outcome.with_relations()
        if graph is not None and graph.has_kernels:
            outcome.warn(values.globals)  # operators that run one by one do so themselves
    if isinstance(outcome, Refused) and outcome.waits:
        state.has_waited = True
        state.stand_aside(outcome.reason)
        return None
    if state.options.strict:
        _judge_outcome(outcome, graph, state, values)
    if isinstance(outcome, Refused) and (modes := names_of_modes()):
        state.refused_under.update(modes)
        if (reason := modes_among(state.refused_under)) is not None:
            state.stand_aside(reason)
        return None
    if isinstance(outcome, Refused):
        if not outcome.passes or state.has_waited:
            table.give_up()
        state.has_waited = True
        _record(
            Compilation(
                state.region, outcome, None, clock.seconds, again, state.options, compiled_at=state.compiled_at, trace=state.trace
            )
        )
        _keep(state, values)
        if state.options.fullgraph:
            raise GraphBreakError(outcome.explain())
        return None
    with clock("guard"):
        program = compile_guards(outcome.guards, state.region.code)
    with clock("assemble"):
        run, can_repeat = None, False
        # Operators that run one by one keep what eager keeps, and write as they run.
        keeps_as_eager = graph is not None and not graph.has_kernels and bool(outcome.effects) and outcome.plan.keeps_history
        keeps_tensors = keeps_as_eager or (graph is not None and graph.keeps_tensors)
        changes = bool(outcome.effects) or (outcome.graph is not None and bool(outcome.graph.written))
        if state.options.looks_only and outcome.graph is not None:
            run = stand_in(outcome.graph.module)
        elif graph is not None and outcome.graph is not None:
            freed = outcome.graph.freed
            function = with_freed_history(graph.function, freed) if freed else graph.function
            function = _checked(function, replace(outcome.graph, module=graph.torch_graph), state)
            with outcome.plan.inference.while_compiled(outcome.plan.records):
                run, can_repeat = repeatable(outcome.graph, function, writes_inputs=graph.writes_inputs)
        code = assemble(
            outcome,
            run,
            lambda resumed, region: _resumed_table(
                resumed,
                RegionState(region, state.options, compiled_at=state.compiled_at, refutes=_refuted_by(outcome, region)),
            ),
            can_repeat,
            asking(state, changes) if keeps_tensors else None,
            asked_again(program),
        )
    leaves = can_repeat or keeps_tensors or bool(outcome.effects.locks) or not isinstance(outcome.exit, Return)
    entry = hook.Entry(program, code, None, values.globals, leaves)
    state.guards.append(outcome.guards)
    state.entries.append((values.globals, entry))
    _record(
        Compilation(
            state.region, outcome.without_values(), graph, clock.seconds, again, state.options, code, state.compiled_at, entry, state.trace
        )
    )
    table.add(entry)
    _keep(state, values)
    why = again.explanation.message if again is not None else None
    ranks_apart.compiled(state.region.qualified_name, state.region.span, len(state.guards) - 1, why)
    return entry


def _refuted_by(outcome: Captured, region: CodeRegion) -> Explanation | None:
    """What proves wrong if `region` is ever reached: it is behind the innermost call, of which capture says that it raises.
    Of numbers that vary it says so for those at hand."""
    end = outcome.exit
    if not isinstance(end, RaiseExit) or outcome.sizes.places or region.parent is None:
        return None
    if region.parent.code is not outcome.plan.frames[-1].code:
        return None
    return CallDidNotFail(end.reason.code, end.reason.message()).explain(end.span, end.stack)


def _judge_outcome(outcome: Captured | Refused, graph: CompiledGraph | None, state: RegionState, values) -> None:
    """Strict mode: raises for a break, a refusal, a graph without kernels, and guards that fail where they were made."""
    if isinstance(outcome, Refused):
        if not state.options.fullgraph:
            judge(outcome.explain(), True)
        return
    explanation = outcome.break_explanation()
    if explanation is not None and not isinstance(outcome.exit, RaiseExit):
        judge(explanation, True)
    for note in graph.notes if graph is not None else ():
        judge(note, True)
    failure = explain_failure(outcome.guards, values)
    if failure is not None:
        guard, text = failure
        judge(GuardFailsAtOnce(guard.describe(), text).explain(guard.span, guard.stack), True)


def _capture_and_compile(state: RegionState, values: FrameValues, clock: Clock) -> tuple[Any, CompiledGraph | None]:
    """The captured region and its graph. Capture starts again where a number must be a constant, or an operator be left out."""
    attempts = Attempts(state)
    if find_backend(state.options.backend) is None:
        with torch._C.DisableTorchFunction():  # a subclass of the program's would be asked for the device
            launching.begin(value.device for value in values.locals.values() if issubclass(type(value), torch.Tensor))
    while True:
        with clock("capture"):
            options = capture_options(state)
            options = replace(options, fixed=options.fixed | attempts.constant)
            if state.options.trace:
                options = replace(options, trace=functools.partial(setattr, state, "trace"))
            outcome = capture(state.region, values, options)
        if isinstance(outcome, Captured) and not (found := outcome.sizes.constants()) <= attempts.constant:
            attempts.turned_out(found, outcome.sizes)
            continue
        if isinstance(outcome, Refused) or outcome.graph is None:
            return outcome, None
        try:
            with outcome.plan.inference.while_compiled(outcome.plan.records):
                return outcome, compile_captured(outcome.graph, state, clock)
        except NumberNeeded as needed:
            numbers = needed.positions or numbers_among(outcome.graph.example_inputs)
            if not numbers:
                raise
            places = frozenset(outcome.graph.sources[position] for position in numbers)
            attempts.refused(places, outcome.sizes, needed.may_be_tied)
        except OperatorsUnsupported as unsupported:
            state.excluded |= unsupported.operators


def capture_options(state: RegionState) -> CaptureOptions:
    options, backend = state.options, find_backend(state.options.backend)
    is_own = backend is None or isinstance(backend, GraphCompilers)
    is_understood = is_own or backend is run_uncompiled
    return CaptureOptions(
        fullgraph=options.fullgraph,
        dynamic=options.dynamic,
        symbolic=frozenset((state.symbolic | state.region.varying) - state.fixed),
        results=frozenset(state.region.results),
        fixed=state.fixed,
        earlier=dict(state.earlier),
        ties=dict(state.ties),
        apart=state.apart,
        excluded=frozenset(state.excluded),
        instruction_limit=options.inline_limit,
        differentiates=is_understood,
        late=is_understood,
        settled=not is_own,
        waits=not state.has_waited,
    )


def _give_up(table: hook.EntryTable, state: RegionState, latest: Explanation | None) -> None:
    """New cases run uncompiled from now on; the entries that there are go on serving."""
    reason = RecompileLimit(state.region.qualified_name, len(state.guards), latest.message if latest else "")
    note = reason.explain(latest.span if latest and latest.span else state.region.span)
    judge(note, state.options.strict)
    table.on_miss = None
    _note(note)


def _checked(function: Callable, captured: CapturedGraph, state: RegionState) -> Callable:
    """The same, where somebody asked for it with a look at what it computes."""
    look = look_asked_for()
    if look is None:
        return function

    def compile(captured: CapturedGraph) -> Callable:
        return compile_captured(captured, state, Clock(state.region)).function

    return look(state.region.qualified_name, captured, function, compile)


def _record(compilation: Compilation) -> None:
    recorder = recording.current()
    if recorder is None:
        return
    if recorder.keep_graph is not None and compilation.graph is not None:
        recorder.keep_graph(compilation.graph.torch_graph)
    from dynascope.account import account_of  # reads what every stage makes: who asks for no report does not load it

    recorder.compiled(compilation, account_of)


def _keep(state: RegionState, values: FrameValues) -> None:
    """The call, where somebody wants to capture it again when its function was edited."""
    recorder = recording.current()
    if recorder is not None and state.region.parent is None:
        recorder.keep(state, values)


def _note(explanation: Explanation) -> None:
    recorder = recording.current()
    if recorder is not None:
        recorder.problem(explanation)
    elif explanation.severity == "error":
        warn(f"dynascope: {explanation.message} {explanation.remedy}")


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
