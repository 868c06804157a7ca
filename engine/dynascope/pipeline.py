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

import copy
import functools
import gc
import threading
import time
import types
import weakref
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import torch
from torch import fx
from torch._C._dynamo import eval_frame

from dynascope import ranks_apart, recording
from dynascope.autograd_functions import with_freed_history
from dynascope.backends import (
    GraphCompilers,
    SymbolFixed,
    backend_name,
    find_backend,
    numbers_among,
    run_uncompiled,
    takes_fixed_sizes,
)
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
    hooks_of_the_program,
    modes_among,
    names_of_modes,
    reason_to_stand_aside,
    without_function_modes,
)
from dynascope.capture.signals import Break
from dynascope.capture.sizes import Sizes
from dynascope.configuration import Options
from dynascope.frame import hook
from dynascope.frame.resume import resume_origin
from dynascope.frame.stack_names import in_users_words
from dynascope.graph_compiler import CompiledGraph, NumberNeeded, OperatorsUnsupported, compile_graph
from dynascope.guards.check import asked_again, compile_guards
from dynascope.guards.failure import explain_failure, raised_by
from dynascope.guards.global_state import modes_asleep
from dynascope.guards.guard import Guard
from dynascope.guards.source import FrameValues, Source
from dynascope.guards.varied import varied
from dynascope.looking import NotRun, stand_in
from dynascope.meta_kernels.graph_modules import forward_of, written
from dynascope.meta_kernels.quiet_torch import without_saved_tensors_hooks
from dynascope.native.forking import safe_in_children
from dynascope.reasons import (
    BackendFailed,
    CallDidNotFail,
    EngineError,
    GuardFailed,
    GuardFailsAtOnce,
    GuardRaises,
    RecompileLimit,
)
from dynascope.repeatable import leaves_nothing, operators_beside_checks, repeatable
from dynascope.report.facts import ChangeFact
from dynascope.report.reason import Explanation, Reason
from dynascope.report.span import Span
from dynascope.requirements import newer_than_tested
from dynascope.runtime import launching
from dynascope.runtime.reasons import ModeNotHonoured
from dynascope.sizes.ties import Tie, ties
from dynascope.stack_room import stack_room
from dynascope.strictness import ExplainedError, StrictError, judge

_compiling = safe_in_children(threading.RLock())
"""One compilation at a time in a process: capture reads the program's objects, and two at once would gain nothing."""


Accepts = Callable[[FrameValues, Callable[[], None]], bool | Reason]


class GraphBreakError(ExplainedError):
    """`fullgraph=True` and the graph breaks; the message names the place, the reason and the remedy."""


@dataclass(frozen=True)
class Compilation:
    """The artefacts of one compilation, kept only while a recorder wants to read them."""

    region: CodeRegion
    outcome: Captured | Refused
    graph: CompiledGraph | None
    seconds: dict[str, float]
    again: Again | None
    options: Options
    code: types.CodeType | None = None
    compiled_at: Span | None = None
    entry: hook.Entry | None = None
    trace: str = ""


MOST_SEEN = 4
MOST_REFUSALS = 3
"""A number may have to be a constant at one value (`n = 2` where a tensor has two rows) and not at others, so a place is tried again,
but not for ever: each time costs recordings in vain."""


@dataclass(eq=False)
class RegionState:
    """What one region has compiled so far. `symbolic` are the places whose number changed: inputs from now on."""

    region: CodeRegion
    options: Options
    accepts: Accepts | None = None
    guards: list[tuple[Guard, ...]] = field(default_factory=list)
    entries: list[tuple[Mapping[str, Any], hook.Entry]] = field(default_factory=list)
    symbolic: set[Source] = field(default_factory=set)
    refusals: Counter[Source] = field(default_factory=Counter)
    """How often an operator needed the number at a place as a constant."""
    earlier: dict[Source, int] = field(default_factory=dict)
    """What sizes of tensors were at the compilations so far: a number, which those have in common that were equal at each."""
    seen: deque[Mapping[Source, int]] = field(default_factory=lambda: deque(maxlen=MOST_SEEN))
    """The sizes and ints of the latest compilations."""
    ties: dict[Source, Tie[Source]] = field(default_factory=dict)
    """How numbers hang together that the program does not run with others of, each by itself."""
    compiled_at: Span | None = None
    """Where the program asked for the function to be compiled; known while a recorder listens."""
    excluded: set[Any] = field(default_factory=set)
    """Operators of the program's own libraries that graphs could not be differentiated with."""
    trace: str = ""
    """Of the latest capture, where it is wanted."""
    stood_aside: set[Reason] = field(default_factory=set)
    has_waited: bool = False
    """Whether a call has run as it was written so that it imports or makes what the next one needs."""

    refutes: Explanation | None = None
    """Of a region that goes on behind a call: capture said that the call raises, so nothing should ever come here."""
    refused_under: set[str] = field(default_factory=set)
    """The function modes under which it could not be captured as a whole: there it runs as it was written."""

    table: weakref.ref[hook.EntryTable] | None = None
    """Where the entries serve."""

    def forget(self) -> None:
        """Entries that were not what they seemed. Calls that run them finish."""
        table = self.table() if self.table is not None else None
        if table is not None:
            table.clear()
        self.guards.clear()
        self.entries.clear()

    @property
    def fixed(self) -> frozenset[Source]:
        """Places whose number operators need as a constant: never inputs."""
        return frozenset(place for place, times in self.refusals.items() if times >= MOST_REFUSALS)

    def note_sizes(self, seen: Mapping[Source, int]) -> None:
        histories = {place: (self.earlier.get(place), size) for place, size in seen.items()}
        first = 1 + max(self.earlier.values(), default=0)
        numbers = {history: number for number, history in enumerate(dict.fromkeys(histories.values()), first)}
        self.earlier.update((place, numbers[history]) for place, history in histories.items())
        self.seen.append(seen)

    def tie(self, needed: frozenset[Source], sizes: Sizes) -> bool:
        """Notes how the needed hang together with each other or with others that vary, by what they are and were. False where nothing
        is new. Compilations that did not come to all of the needed say nothing of them (a cache that was still empty), where others did."""
        places = [place for place in dict.fromkeys((*needed, *sizes.varying())) if place in sizes.seen]
        compilations = [*self.seen, sizes.seen]
        met = [seen for seen in compilations if all(place in seen for place in places if place in needed)]
        found = ties({place: tuple(seen[place] for seen in met) for place in places if all(place in seen for seen in met)}, needed)
        if not found:
            rows = {place: tuple(seen[place] for seen in compilations if place in seen) for place in places}
            length = max((len(row) for place, row in rows.items() if place in needed), default=0)
            found = ties({place: row for place, row in rows.items() if len(row) == length}, needed)
        is_new = any(self.ties.get(place) != tie for place, tie in found.items())
        given_by = {place for tie in found.values() for place in tie.keys}
        self.ties = {place: tie for place, tie in self.ties.items() if place not in given_by} | found  # so that none goes round
        return is_new

    def stand_aside(self, reason: Reason) -> None:
        """Calls that run as they are written for a while: said once for each reason."""
        if reason not in self.stood_aside:
            self.stood_aside.add(reason)
            recorder = recording.current()
            if recorder is not None:
                recorder.problem(reason.explain(self.region.span))

    def stands_aside_for_hooks(self) -> bool:
        reason = hooks_of_the_program()
        if reason is not None:
            self.stand_aside(reason)
        return reason is not None


def _asking(state: RegionState) -> Callable[[], bool]:
    """Asks whether a call stands aside, for compiled code to hold: a code object's constants are no part of a cycle that Python can
    find, and the state holds the code."""
    held = weakref.ref(state)

    def stands_aside() -> bool:
        state = held()
        return state is not None and state.stands_aside_for_hooks()

    return stands_aside


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
        with modes_asleep(), _compiling, hook.suspended(), without_saved_tensors_hooks(), _without_collections():
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


@contextmanager
def _without_collections() -> Iterator[None]:
    """Graphs are many objects, most of them needed until the end: to look through them for garbage again and again takes a quarter
    of a compilation. What was made is old when it ends, else the next allocation would look through all of it at once. Garbage
    of the program is collected before, so that none of it waits with ours for a full collection."""
    was_enabled = gc.isenabled()
    if was_enabled:
        gc.collect(1)
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            if not gc.get_freeze_count():  # else it is the program that froze something
                gc.freeze()
                gc.unfreeze()
            gc.enable()


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
    again = _why_again(state, values)
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
        keeps_tensors = graph is not None and graph.keeps_tensors
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
            _asking(state) if keeps_tensors else None,
            asked_again(program),
        )
    leaves = can_repeat or keeps_tensors or bool(outcome.effects.locks) or not isinstance(outcome.exit, Return)
    entry = hook.Entry(program, code, None, values.globals, leaves)
    state.guards.append(outcome.guards)
    state.entries.append((values.globals, entry))
    _record(
        Compilation(
            state.region, outcome, graph, clock.seconds, again, state.options, code, state.compiled_at, entry, state.trace
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
    constant: frozenset[Source] = frozenset()
    tied = False
    if find_backend(state.options.backend) is None:
        with torch._C.DisableTorchFunction():  # a subclass of the program's would be asked for the device
            launching.begin(value.device for value in values.locals.values() if issubclass(type(value), torch.Tensor))
    while True:
        with clock("capture"):
            options = capture_options(state)
            options = replace(options, fixed=options.fixed | constant)
            if state.options.trace:
                options = replace(options, trace=functools.partial(setattr, state, "trace"))
            outcome = capture(state.region, values, options)
        if isinstance(outcome, Captured) and not (found := outcome.sizes.constants()) <= constant:
            # For this call alone: another may take another way through the program.
            if tied or not (tied := state.tie(found, outcome.sizes)):
                constant |= found
            continue
        if isinstance(outcome, Refused) or outcome.graph is None:
            return outcome, None
        try:
            with outcome.plan.inference.while_compiled(outcome.plan.records):
                return outcome, _compile_captured(outcome.graph, state, clock)
        except NumberNeeded as needed:
            numbers = needed.positions or numbers_among(outcome.graph.example_inputs)
            if not numbers:
                raise
            places = frozenset(outcome.graph.sources[position] for position in numbers)
            if needed.may_be_tied and not tied and (tied := state.tie(places, outcome.sizes)):
                continue
            state.refusals.update(places)
            constant |= places
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
        excluded=frozenset(state.excluded),
        instruction_limit=options.inline_limit,
        differentiates=is_understood,
        late=is_understood,
        settled=not is_own,
        waits=not state.has_waited,
    )


def _compile_captured(captured: CapturedGraph, state: RegionState, clock: Clock) -> CompiledGraph:
    """The captured graph through our stages, or through the backend that was asked for."""
    backend = find_backend(state.options.backend)
    if not state.options.fullgraph and (beside := operators_beside_checks(captured.module)):
        raise OperatorsUnsupported(beside)
    if backend is None:
        return _compile_here(captured, state, clock)
    if isinstance(backend, GraphCompilers):
        try:
            return _compile_here(captured, state, clock)
        except (NumberNeeded, OperatorsUnsupported):
            raise
        except Exception as error:
            if numbers_among(captured.example_inputs):
                raise _needed_by_backend(captured, error) from error
            return _failed(captured, state, error)
    captured = replace(captured, module=written(captured.module))
    numbers, original = numbers_among(captured.example_inputs), captured.module
    if _look() is not None:
        # A backend may change the graph that it is given.
        captured = replace(captured, module=fx.GraphModule(captured.module, copy.deepcopy(captured.module.graph)))
    notes = _left_to_backend(state.options)
    with clock("backend"):
        try:
            if numbers and backend is not run_uncompiled:
                from dynascope.symbolic_backends import compile_with_symbols  # imports torch's symbols

                fixing = _fixing(captured, state)
                call = compile_with_symbols(
                    backend, original, captured.example_inputs, fixing, leaves_nothing=leaves_nothing(captured)
                )
                return CompiledGraph(call, original, notes=notes)
            return CompiledGraph(backend(captured.module, list(captured.example_inputs)), original, notes=notes)
        except Exception as error:
            if numbers:
                raise _needed_by_backend(captured, error) from error
            return _failed(captured, state, error)


OF_OUR_KERNELS = {"mode": "default", "random": "eager", "numerics": "default"}
"""Settings that say how kernels of ours are made, with what they are where nobody sets them."""


def _names_of_numbers(captured: CapturedGraph) -> dict[str, int]:
    """Where among the graph's inputs each number is."""
    placeholders = [node for node in captured.module.graph.nodes if node.op == "placeholder"]
    numbers = {at: placeholders[at] for at in numbers_among(captured.example_inputs)}
    return {str(node.meta.get("size", node.name)): at for at, node in numbers.items()}


def _needed_by_backend(captured: CapturedGraph, error: Exception) -> NumberNeeded:
    """The graph's inputs that a backend needs as constants: all its numbers where it does not say."""
    names = error.names if isinstance(error, SymbolFixed) else frozenset()
    numbers = tuple(at for name, at in _names_of_numbers(captured).items() if name in names)
    return NumberNeeded(numbers, may_be_tied=bool(names))


def _fixing(captured: CapturedGraph, state: RegionState) -> Callable[[Collection[str]], None]:
    """Told of numbers that the backend's code took for constants while it ran: its entries serve no more, and these numbers are
    constants of the next ones. For compiled code to hold, as `_asking` is."""
    held = weakref.ref(state)
    place_of = {name: captured.sources[at] for name, at in _names_of_numbers(captured).items()}

    def fix(names: Collection[str]) -> None:
        state = held()
        places = {place for name, place in place_of.items() if name in names} or set(place_of.values())
        if state is not None and not places <= state.fixed:
            state.refusals.update(dict.fromkeys(places, MOST_REFUSALS))
            state.forget()

    return fix


def _left_to_backend(options: Options) -> tuple[Explanation, ...]:
    """What was asked for and is not done where another backend compiles the graph."""
    missing, cause = "kernels are not made accordingly", f"`{backend_name(options.backend)}` makes them and is not told"
    asked = {name: getattr(options, name) for name, usual in OF_OUR_KERNELS.items() if getattr(options, name) != usual}
    return tuple(ModeNotHonoured(f'{name}="{value}"', missing, cause).explain() for name, value in asked.items())


def _compile_here(captured: CapturedGraph, state: RegionState, clock: Clock) -> CompiledGraph:
    backend = find_backend(state.options.backend)  # asked for by its name, or as it is
    options = state.options
    if isinstance(backend, GraphCompilers):
        options = replace(options, backend=replace(backend, when_kept=_fixing(captured, state)))
    elif backend is not None:
        options = replace(options, backend=backend)
    records = not torch.is_inference_mode_enabled()
    with without_function_modes(), outside_inference_mode(), stack_room():
        module = captured.module if records else without_recording(captured.module)
        return compile_graph(module, captured.example_inputs, options, state.region.qualified_name, clock)


def _failed(captured: CapturedGraph, state: RegionState, error: Exception) -> CompiledGraph:
    """The graph, operator by operator."""
    note = BackendFailed.of(backend_name(state.options.backend), error).explain(state.region.span)
    judge(note, state.options.strict, error)
    warn(f"dynascope: {note.message} {note.remedy}")
    return CompiledGraph(forward_of(captured.module), captured.module, notes=(note,))


def without_recording(module: fx.GraphModule) -> fx.GraphModule:
    """In inference mode nothing is recorded, though gradients be switched on inside. What requires grad there still says so, and so
    do its views, but for those of what was detached: examples are as they are."""
    if all(node.target is not torch._C._set_grad_enabled for node in module.graph.nodes):
        return module
    graph = copy.deepcopy(module.graph)
    for node in graph.nodes:
        if node.target is torch._C._set_grad_enabled:
            graph.erase_node(node)
    return fx.GraphModule(module, graph)


@contextmanager
def outside_inference_mode() -> Iterator[None]:
    """Tensors made in inference mode count no versions, which is how writes to them are found."""
    if not torch.is_inference_mode_enabled():
        yield
        return
    with torch.inference_mode(False), torch.no_grad():
        yield


class GuardFail(NamedTuple):
    """What `guard_fail_fn` is called with."""

    reason: str
    orig_code: types.CodeType


@dataclass(frozen=True)
class Again:
    """Why a region is compiled once more: in words, and as data."""

    explanation: Explanation
    change: ChangeFact
    reason: GuardFailed
    guard: Guard


def _why_again(state: RegionState, values: FrameValues) -> Again | None:
    """Why no earlier entry serves: the guard of the latest one that failed. A number that changed becomes an input."""
    if not state.guards:
        return None
    from dynascope.changes import change_of

    latest = None
    for guards in state.guards:
        if state.options.dynamic is not False:
            state.symbolic |= varied(guards, values)
        failure = explain_failure(guards, values)
        if failure is None:
            continue
        guard, text = failure
        error = raised_by(guard, values) if state.options.strict else None
        if error is not None:
            note = GuardRaises(guard.describe(), f"{type(error).__name__}: {error}")
            judge(note.explain(guard.span, guard.stack), True, error)
        change = change_of(guard, values, state.region.code)
        is_in_between = resume_origin(state.region.code) is not None
        fixed_by = backend_name(state.options.backend) if takes_fixed_sizes(state.options.backend) else ""
        reason = GuardFailed(in_users_words(text, state.region.code), change, state.options.dynamic, is_in_between, fixed_by=fixed_by)
        if latest is None or latest.change.cause in OF_STATE or change.cause not in OF_STATE:
            latest = Again(reason.explain(guard.span or state.region.span, guard.stack), reason.change, reason, guard)
    return latest


OF_STATE = frozenset({"grad-mode", "state"})
"""An entry that was made in the same mode is nearer: what differs from it is why there is another one in this mode."""


def _give_up(table: hook.EntryTable, state: RegionState, latest: Explanation | None) -> None:
    """New cases run uncompiled from now on; the entries that there are go on serving."""
    reason = RecompileLimit(state.region.qualified_name, len(state.guards), latest.message if latest else "")
    note = reason.explain(latest.span if latest and latest.span else state.region.span)
    judge(note, state.options.strict)
    table.on_miss = None
    _note(note)


def _look() -> Callable[..., Callable] | None:
    """What takes the place of compiled graphs where somebody asked to see what they compute."""
    recorder = recording.current()
    return None if recorder is None else recorder.check


def _checked(function: Callable, captured: CapturedGraph, state: RegionState) -> Callable:
    """The same, where somebody asked for it with a look at what it computes."""
    look = _look()
    if look is None:
        return function

    def compile(captured: CapturedGraph) -> Callable:
        return _compile_captured(captured, state, Clock(state.region)).function

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
