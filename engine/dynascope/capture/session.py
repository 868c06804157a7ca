"""One capture from start to end: interpret, and on a break find the frames that can go on.

A break is at the innermost frame that can be resumed: one whose callers all wait for a plain result, that is not
a library's code, and whose state can be rebuilt. What lies inside it is undone, and Python runs its instruction.
"""

from __future__ import annotations

import itertools
import traceback
import warnings
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from types import FunctionType, MethodType
from typing import Any
from warnings import WarningMessage

import torch
from torch import fx
from torch.autograd import forward_ad

from dynascope.capture import (
    dictionaries,
    histories,
    opcodes,  # noqa: F401 (registers what instructions mean)
)
from dynascope.capture.calls import (  # noqa: F401 (they register what callables mean)
    alignment_losses,
    autocast,
    autograd_functions,
    byte_masks,
    callables,
    caught_warnings,
    checkpointing,
    choices,
    classes_made,
    constructors,
    containers,
    context_variables,
    copying,
    counted_bins,
    covariances,
    deques,
    differentiation,
    distances,
    draws,
    fake_quantization,
    function_overrides,
    handled_exceptions,
    heaps,
    hooks_of_functions,
    hooks_of_tensors,
    inference_mode,
    introspection,
    iterators,
    kernel_flags,
    known_functions,
    late_numbers,
    locks,
    loggers,
    named_operators,
    nested_masks,
    numbers_and_text,
    objects,
    optimizers,
    own_warnings,
    packed_sequences,
    pickled,
    process_groups,
    profiling,
    quantiles,
    recurrent,
    repetitions,
    scattered_parts,
    short_time_fourier,
    torch_checks,
    torch_state,
    transforms,
    tuple_operators,
    views_in_place,
    weak_references,
)
from dynascope.capture.calls.allowed_in_graph import is_allowed
from dynascope.capture.calls.generators import closes_quietly
from dynascope.capture.calls.registry import learn_imported
from dynascope.capture.effects import Effects, effects_of
from dynascope.capture.exits import (
    BreakExit,
    Exit,
    FrameState,
    RaiseExit,
    Return,
    StepRefused,
    StepWriter,
    no_table,
    state_of,
)
from dynascope.capture.frames import Frame, Program
from dynascope.capture.graph import CapturedGraph
from dynascope.capture.histories import leads_into
from dynascope.capture.library_checks import is_caught
from dynascope.capture.lifetimes import without_the_unread
from dynascope.capture.machine import Machine
from dynascope.capture.outside_generators import check_finished
from dynascope.capture.parts import all_parts, describe, needs
from dynascope.capture.places import breaks_at_its_call, knows_torch
from dynascope.capture.plan import Plan
from dynascope.capture.protocols import gradient_requirements, gradients, tensor_data
from dynascope.capture.protocols.gradient_requirements import (
    RequirementValue,
    are_unseen,
    examples_of_leaves,
    leave_out_leaves,
    leaves_afterwards,
)
from dynascope.capture.protocols.loop_turns import guard_turns
from dynascope.capture.protocols.outside_iterators import breaks_again
from dynascope.capture.protocols.overriding import modes_at_entry
from dynascope.capture.protocols.presence import guard_found
from dynascope.capture.reasons import (
    AliasedMutation,
    DataDependentValue,
    FirstImport,
    ForeignCall,
    GeneratorFunction,
    InternalFailure,
    ParameterNotMade,
    ProgramRaises,
    TensorSubclass,
    TorchCallFails,
    UnrebuildableValue,
    UnsupportedInstruction,
    WholeFunctionsOnly,
)
from dynascope.capture.region import CaptureOptions, CodeRegion
from dynascope.capture.signals import Break, CaptureAgain, Raised, Refusal
from dynascope.capture.sizes import Sizes
from dynascope.capture.standing_aside import reason_to_stand_aside
from dynascope.capture.told_views import guard_views
from dynascope.capture.torch_state import TorchState
from dynascope.capture.tracing import Trace
from dynascope.capture.values import (
    CellValue,
    ConditionValue,
    DataValue,
    FunctionValue,
    GradientValue,
    InstanceValue,
    MutableValue,
    TensorValue,
    Value,
    own_dictionary,
)
from dynascope.capture.world import note, recording
from dynascope.dataclass import dataclass
from dynascope.frame.resume import resume_origin
from dynascope.frame.shape import GENERATOR_FLAGS
from dynascope.frame.versions import KNOWS_FRAMES, python_name
from dynascope.guards.global_state import GlobalStateIs
from dynascope.guards.guard import Guard, IdentityIs, NoneIsAnother, NotSameObject
from dynascope.guards.source import AttributeSource, CellSource, FrameValues, LocalSource, cell_of
from dynascope.guards.tensor_guard import NoOverlap, WrittenAs
from dynascope.meta_kernels.quiet_torch import without_compiler_imports
from dynascope.report.reason import Explanation, Reason
from dynascope.report.span import Span, UserStack


@dataclass(frozen=True, slots=True, eq=False)
class Captured:
    """A part of a function as a graph, what it assumed, what it does besides, and how it goes on."""

    region: CodeRegion
    graph: CapturedGraph | None
    guards: tuple[Guard, ...]
    exit: Exit
    effects: Effects
    plan: Plan
    instructions: int
    sizes: Sizes
    visited: dict[Program, set[int]]
    """Which instructions of each code were interpreted."""
    warnings: tuple[tuple[WarningMessage, UserStack], ...] = ()

    def warn(self, module_globals: Any) -> None:
        """Says what torch's functions warned of, about the lines that called them. `module_globals` is the dictionary in which
        Python keeps what was said."""
        for warning, stack in self.warnings:
            place = stack[-1].span if stack else None
            if place is not None:
                registry = module_globals.setdefault("__warningregistry__", {})
                warnings.warn_explicit(warning.message, warning.category, place.file, place.line, registry=registry)

    def lines(self) -> dict[str, set[int]]:
        """The lines that capture followed, by file."""
        found: dict[str, set[int]] = {}
        for program, positions in self.visited.items():
            places = (program.instructions[at].position for at in positions)
            found.setdefault(program.code.co_filename, set()).update(p.line for p in places if p is not None)
        return found

    def with_relations(self) -> Captured:
        """The same once every stage has said which relations between sizes it relies on."""
        return replace(self, guards=(*self.guards, *self.sizes.guards()))

    def without_values(self) -> Captured:
        """The same for who reads it later: nothing in it keeps an object of the program's alive."""
        nothing, graph = Effects((), (), {}, ()), self.graph and replace(self.graph, example_inputs=())
        return replace(self, graph=graph, effects=nothing, plan=replace(self.plan, outputs=(), effects=nothing, result=None, frames=()))

    def break_explanation(self) -> Explanation | None:
        """Why the graph ended before the function did; None where it did not."""
        return None if isinstance(self.exit, Return) else self.exit.reason.explain(self.exit.span, self.exit.stack)


@dataclass(frozen=True, slots=True)
class Refused:
    """Nothing was captured: the function runs uncompiled."""

    reason: Reason
    span: Span | None = None
    stack: UserStack = ()
    passes: bool = False
    """Whether the next call may be captured: it finds what this one imports."""
    waits: bool = False
    """Whether nothing is wrong with the program: what the next call finds was made by this one."""

    def explain(self) -> Explanation:
        return self.reason.explain(self.span, self.stack)


def run(region: CodeRegion, values: FrameValues, options: CaptureOptions) -> Captured | Refused:
    refusal = refusal_of(region)
    if refusal is not None:
        return refusal
    while True:
        try:
            return as_late_as_possible(region, values, options)
        except CaptureAgain as signal:
            options = replace(options, **signal.options)


def as_late_as_possible(region: CodeRegion, values: FrameValues, options: CaptureOptions) -> Captured | Refused:
    outcome, places = attempt(region, values, options)
    if not places or not isinstance(outcome, Refused):
        return outcome
    return up_to_what_cannot_be_made(region, values, options, outcome, places) or outcome


def up_to_what_cannot_be_made(
    region: CodeRegion, values: FrameValues, options: CaptureOptions, refused: Refused, places: Sequence[int]
) -> Captured | None:
    """What the function does cannot be done again at its end, or where it breaks: captured again, with a break as late as that
    can be done. `places` are the instructions of its own, of which it is taken that the earlier ones all can."""
    best: Captured | None = None
    low, high = 0, len(places)
    while low < high:
        middle = (low + high) // 2
        found, _ = attempt(region, values, replace(options, stop=(places[middle], refused.reason)))
        if isinstance(found, Captured):
            low, best = middle + 1, found
        else:
            high = middle
    is_worth_it = best is not None and (best.graph is not None or isinstance(refused.reason, UnrebuildableValue))
    return best if is_worth_it else None


def attempt(region: CodeRegion, values: FrameValues, options: CaptureOptions) -> tuple[Captured | Refused, Sequence[int]]:
    """One capture, and where it could break earlier if what it does cannot be made again."""
    session = Session(region, values, options)
    trace = Trace(session.machine) if options.trace is not None else None
    default_dtype = torch.get_default_dtype()
    try:
        with without_compiler_imports(), without_function_modes(), recording(session.machine.guards.world):
            outcome = session.capture()
            if (places := session.machine.outside.held_in_tensors) and _breaks(outcome):
                raise CaptureAgain(fixed=options.fixed | places)  # what was left to Python may follow where it is a constant
            if session.machine.has_rows and _breaks(outcome):
                raise CaptureAgain(leaves_out_rows=False)
            if trace is not None and options.trace is not None:
                options.trace(trace.finished(_why_it_ended(outcome)))
            return outcome, session.earlier
    finally:
        inference_mode.take_back(session.machine)
        session.state_at_entry.restore()
        assert torch.get_default_dtype() is default_dtype
        # The parts of a capture know each other; the program's objects must not wait for the garbage collector.
        session.machine.journal.forget()
        vars(session.machine.outside).clear()
        vars(session.machine).clear()


def _breaks(outcome: Captured | Refused) -> bool:
    return isinstance(outcome, Refused) or not isinstance(outcome.exit, Return)


def _why_it_ended(outcome: Captured | Refused) -> str:
    explanation = outcome.explain() if isinstance(outcome, Refused) else outcome.break_explanation()
    return "" if explanation is None else explanation.message


def without_function_modes() -> AbstractContextManager[None]:
    """The default device is a mode too; what is computed here says its own devices."""
    return torch._C.DisableTorchFunction() if torch._C._len_torch_function_stack() else nullcontext()


def refusal_of(region: CodeRegion) -> Refused | None:
    if region.code.co_flags & GENERATOR_FLAGS:
        return Refused(GeneratorFunction(region.qualified_name), region.span)
    reason = reason_to_stand_aside()
    return None if reason is None else Refused(reason, region.span)


class Session:
    def __init__(self, region: CodeRegion, values: FrameValues, options: CaptureOptions) -> None:
        self.region, self.options = region, options
        learn_imported()
        self.machine = Machine(values, options)
        self.earlier: Sequence[int] = ()
        self.leaves_generator = False
        self.machine.state_at_entry = self.state_at_entry = TorchState.now()
        self.state_guard = Guard((), GlobalStateIs.now())
        if options.records:
            self.machine.graph.set_state(torch._C._set_grad_enabled, (False,))
            self.machine.grad_mode = True
        self.modes: tuple[Value, ...] = ()
        self.asks_at_entry = self.machine.overriding.state

    def capture(self) -> Captured | Refused:
        machine = self.machine
        note(vars(forward_ad), "_current_level", forward_ad._current_level)
        machine.frames.append(self.first_frame())
        machine.overriding.modes = self.modes = modes_at_entry(machine)
        try:
            result = machine.run(0).value
        except Break as signal:
            return self.stopped(self.ended_by(signal.reason))
        except Raised as raised:
            return self.refused(self.ended_by(machine.ends_with(raised)))
        except Refusal as refusal:
            return self.refused(refusal.reason)
        except Exception as error:
            return self.stopped(InternalFailure(f"{type(error).__name__}: {error}, at {place_raised(error)}"))
        try:
            return self.finished(Return(), result, ())
        except Break as signal:
            self.earlier = self.breaking_places(signal.reason)
            return self.refused(signal.reason)

    def breaking_places(self, reason: Reason) -> Sequence[int]:
        """None in what is one graph or nothing, and where frames cannot be entered in the middle. A generator with a cleanup would be
        held by the break, and cleaned up later than Python does; what comes after a checkpoint may change what it runs on again."""
        is_whole = self.options.fullgraph or not KNOWS_FRAMES or self.leaves_generator or self.machine.checkpoints
        can_end_earlier = isinstance(reason, (UnrebuildableValue, AliasedMutation)) and not is_whole
        return self.machine.statements[1:] if can_end_earlier else ()

    def first_frame(self) -> Frame:
        code, values = self.region.code, self.machine.values
        self.machine.outside.code = code
        function = FunctionValue(code, values.globals, self.region.qualified_name)
        slots: dict[str, Value] = {
            name: self.machine.outside.lazy(value, LocalSource(name))
            for name, value in values.locals.items()
            if name not in code.co_freevars
        }
        for name in code.co_freevars:
            slots[name] = self.machine.outside.cell(values.variables[name], name, CellSource(name))
        origin = resume_origin(code)
        for name in origin.cell_arguments if origin else ():
            place = AttributeSource(LocalSource(name), "cell_contents")
            slots[name] = self.machine.outside.cell(values.locals[name], name, place)
        return Frame(function, slots)

    # Breaks

    def ended_by(self, reason: Reason) -> Reason:
        """Where the program fails on the way that it has for compilers, it is captured again and goes the other one, as torch.compile
        runs what fails while it is followed."""
        if self.machine.said_it_compiles and isinstance(reason, (ProgramRaises, TorchCallFails)):
            raise CaptureAgain(says_it_compiles=False)
        return reason

    def stopped(self, reason: Reason) -> Captured | Refused:
        """The break, at the innermost frame where it can be made."""
        frames = self.machine.frames
        if any(frame.generator is not None and frame.generator.source is not None for frame in frames):
            raise CaptureAgain(follows_generators=False)
        if any(frame.early is not None for frame in frames):
            raise CaptureAgain(goes_both_ways=False)
        if self.machine.devices:
            raise CaptureAgain(follows_devices=False)
        for frame in frames[1:]:
            if frame.function.object not in self.options.recorded and is_allowed(frame.function):
                raise CaptureAgain(recorded=self.options.recorded | {frame.function.object})
        span, stack = self.place()
        if isinstance(reason, ParameterNotMade):
            if self.options.waits:
                return Refused(reason, span, stack, waits=True)
            reason = TensorSubclass(reason.type_name, reason.expression)  # that call did not make it
        if self.options.fullgraph and not isinstance(reason, (ProgramRaises, TorchCallFails)):
            return Refused(reason, span, stack)
        if self.modes:
            return Refused(reason, span, stack)  # each operation may break again, inside the mode's method
        if not KNOWS_FRAMES:
            whole = WholeFunctionsOnly(python_name(), reason.message(), reason.remedy())
            return Refused(whole, span, stack, passes=isinstance(reason, FirstImport))
        depth = self.resumable_depth(reason)
        while depth > 0:
            try:
                return self.broken_at(depth, reason, span, stack)
            except StepRefused as refusal:
                reason = refusal.reason or reason
            except Break as signal:
                reason = signal.reason
                self.earlier = self.breaking_places(reason)
            depth -= 1
        del frames[1:]
        return Refused(reason, span, stack)

    def place(self) -> tuple[Span, UserStack]:
        stack = self.machine.user_stack()
        return (stack[-1].span if stack else self.region.span), stack

    def resumable_depth(self, reason: Reason) -> int:
        """How many of the frames, from the outermost, can be left and entered again."""
        depth = 1
        for frame in self.machine.frames[1:]:
            if frame.delivery == "nested" or frame.generator is not None or breaks_at_its_call(frame.globals):
                break
            depth += 1
        called_at = None
        is_users = knows_torch(self.machine.frames[-1].globals)  # which a library only leads to: contextlib
        while depth > 1 and not is_users and self.is_without_tensors(self.machine.frames[depth - 1]):
            depth -= 1
            called_at = self.machine.frames[depth].began[1]
        if called_at is not None:  # what was assumed inside is not assumed then
            raise CaptureAgain(stop=(called_at, reason))
        return depth

    def is_without_tensors(self, frame: Frame) -> bool:
        """Whether a function is of a module that does not know torch, has done nothing so far that is in the graph, and was given
        nothing that could (`may_compute`): a progress bar, an environment. Its pieces are not worth compiling."""
        is_idle = frame.began[0] == len(self.machine.graph.graph.nodes) and not knows_torch(frame.globals)
        return is_idle and not any(map(may_compute, frame.slots.values()))

    def broken_at(self, depth: int, reason: Reason, span: Span, stack: UserStack) -> Captured:
        machine = self.machine
        may_be_caught = is_caught(machine)
        frame = machine.frames[depth - 1]
        if frame.checkpoint.position != frame.position:
            raise StepRefused(UnsupportedInstruction(frame.instruction.operation, span.text()))
        machine.journal.rollback(frame.checkpoint.mark)
        del machine.frames[depth:]
        frame.stack = frame.checkpoint.stack[:]
        deliveries = [inner.delivery for inner in machine.frames[1:]] + ["push"]
        self.guard_globals(machine.frames[1:])
        states = tuple(
            replace(state_of(each, delivery), varying=self.varying(each))
            for each, delivery in zip(machine.frames, deliveries, strict=True)
        )
        alive = {id(getattr(value, "object", None)) for state in states for value in state.stack}
        if any(breaks_again(value) and id(value.object) in alive for value in machine.written):
            raise CaptureAgain(follows_data=False)
        if isinstance(reason, DataDependentValue):
            states = (*states[:-1], replace(states[-1], gives_data=True))
        for at, state in enumerate(states):
            StepWriter(state, self.region, no_table, None if at == depth - 1 else "call").write()
        if isinstance(reason, (ProgramRaises, TorchCallFails)):
            reason = replace(reason, is_caught=may_be_caught)
            return self.finished(RaiseExit(reason, span, stack, may_be_caught), None, states)
        return self.finished(BreakExit(reason, span, stack), None, states)

    def varying(self, frame: Frame) -> dict[str, tuple[int, ...] | None]:
        """The locals that are known to be others at other calls."""
        found: dict[str, tuple[int, ...] | None] = {}
        for name, value in frame.slots.items() if self.machine.extents.vary else ():
            if isinstance(value, TensorValue):
                found[name] = self.machine.extents.varying_dimensions(value)
            elif self.machine.sizes.is_late(value) and not isinstance(value, ConditionValue):
                found[name] = None
        return found

    def guard_globals(self, inlined: list[Frame]) -> None:
        """The steps of inlined frames hold the globals of their functions, and one code can have several."""
        for frame in inlined:
            if frame.function.source is not None:
                place = AttributeSource(frame.function.source, "__globals__")
                self.machine.guards.add(place, IdentityIs(frame.globals))

    # The result

    def finished(self, exit: Exit, result: Value | None, states: tuple[FrameState, ...]) -> Captured:
        machine = self.machine
        if machine.devices:
            raise CaptureAgain(follows_devices=False)
        loggers.check_heard(machine)
        hooks_of_tensors.check_unwritten(machine)
        written = self.check_aliases()
        state = TorchState.now()
        effects = effects_of(machine, inference_mode.state_calls(machine, state), *self.modes_since())
        for function, arguments in self.state_at_entry.nesting_since(state):
            machine.graph.set_state(function, arguments)
        plan = Plan(self.region, (), effects, result, without_the_unread(states))
        if machine.kept_gradients:
            effects = replace(effects, said=hooks_of_tensors.calls_seen(machine, plan))
            plan = replace(plan, effects=effects)
        self.check_generators(plan)
        caught_warnings.check_left(machine)
        context_variables.check_left(machine)
        outputs = tuple(needs(plan.roots()))
        tensor_data.check_views(machine, outputs)
        if not {parameter.node for parameter in machine.parameters_made}.isdisjoint(outputs):
            raise CaptureAgain(makes_leaves=False)
        if gradient_requirements.views_tell(machine, outputs):
            raise CaptureAgain(makes_leaves=False)
        inference = inference_mode.call_of(machine, outputs)
        checkpointing.check_unchanged(machine, states)
        differentiable = [node for node in (*outputs, *histories.with_new_histories(machine.graph.graph)) if not self.is_freed(node)]
        if histories.lead_to(differentiable, examples_of_leaves(machine)):
            if are_unseen(machine, differentiable):
                leave_out_leaves(machine)
            elif (leaves := leaves_afterwards(machine, differentiable)) is not None:
                effects = replace(effects, leaves=leaves)
            else:
                raise CaptureAgain(makes_leaves=False)
        if machine.graph.stops_device_after_check():
            raise CaptureAgain(checks_devices=False)
        ending = exit.reason if isinstance(exit, BreakExit) else None
        if self.options.draws and not self.options.fullgraph and draws.belong_outside(machine.graph.graph.nodes, ending):
            raise CaptureAgain(draws=False)
        if (twice := machine.graph.still_read(outputs)) is not None:
            raise Break(ForeignCall(twice.name, "a custom autograd function keeps what it makes outside"))
        outputs += tuple(machine.graph.raising(outputs))
        if self.options.settled and not machine.sizes.scope.late:
            machine.extents.settle((*outputs, *machine.graph.last_operations()))
        else:  # what compiles the graph tries the others at other sizes
            machine.extents.check_runs(machine.graph.left_over(outputs))
        freed = self.freed(outputs)
        restore = self.state_at_entry.restore if machine.graph.setters else None
        graph = machine.graph.finish(outputs, {tensor.source for tensor in written}, freed)
        inputs = tuple(map(machine.graph.source_of, outputs)) if graph is None else ()
        is_unseen, records = bool(self.modes), self.options.records
        begun = gradient_requirements.begun(machine)
        plan = Plan(self.region, outputs, effects, result, plan.frames, inputs, restore, is_unseen, inference, records, begun)
        guard_found(machine)
        guards = (self.state_guard, *machine.guards.guards())
        machine.sizes.finish()
        return Captured(
            self.region,
            graph,
            guards,
            exit,
            effects,
            plan,
            machine.count,
            machine.sizes,
            machine.visited,
            tuple(machine.warnings),
        )

    def modes_since(self) -> tuple[tuple[Value, ...], int]:
        """The function modes that are on and were not at the start, and how many of those that were are off."""
        now, before = self.machine.overriding, self.modes
        if now.state != self.asks_at_entry:
            raise Break(UnrebuildableValue("a context in which `__torch_function__` is not asked"))
        same = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] is pair[1], zip(now.modes, before, strict=False)))
        return now.modes[same:], len(before) - same

    def is_freed(self, node: fx.Node) -> bool:
        """Whether the program has freed the history of what a node gives."""
        example = node.meta.get("example_value")
        return isinstance(example, torch.Tensor) and leads_into(example, self.machine.freed)

    def freed(self, outputs: tuple[fx.Node, ...]) -> dict[int, str]:
        """The results whose history the program has freed, and what torch says of those who differentiate them again."""
        found: dict[int, str] = {}
        for place, node in enumerate(outputs) if self.machine.freed else ():
            if self.is_freed(node):
                example = node.meta["example_value"]
                try:
                    seed = torch.empty_like(example, requires_grad=False)
                    example.backward(seed, retain_graph=True)
                except RuntimeError as error:
                    found[place] = str(error)
        return found

    def check_generators(self, plan: Plan) -> None:
        """A generator left inside `try` or `with` runs its cleanup when Python drops it, which is not followed here.

        One that the program still holds is made again.
        """
        held: list[Value] = []
        pending = [generator for generator in self.machine.generators if generator.started and not generator.finished]
        if pending:
            held = all_parts(plan.roots())
        for generator in pending:
            if not any(generator is each for each in held) and not closes_quietly(self.machine, generator):
                self.leaves_generator = True
                raise Break(UnrebuildableValue(describe(generator)))

    def check_aliases(self) -> list[TensorValue]:
        """Writes are seen through every name of an object: names that were different must stay so. Gives the tensors written.

        The place of a cell is its content's, which says nothing about the cell and may be empty: `guard_cells` looks at those.
        """
        machine = self.machine
        outside = list(machine.outside.by_identity.values())
        for written in machine.written:
            if isinstance(written, (CellValue, DataValue, GradientValue, RequirementValue)):
                continue
            for other in outside:
                if other is not written and written.source is not None and type(other) is type(written):
                    if isinstance(other, MutableValue) and may_be_one(written, other):
                        machine.guards.add_pair(written.source, other.source, NotSameObject())
        for places in machine.keys.values():
            if len(places) > 1:
                machine.guards.add_group(tuple(places), NoneIsAnother())
        gradients.guard_apart(machine)
        guard_turns(machine, outside)
        check_finished(machine)
        dictionaries.check(machine, outside)
        guard_cells(machine, outside)
        guard_views(machine, outside)
        return self.check_tensor_aliases([value for value in outside if isinstance(value, TensorValue)])

    def check_tensor_aliases(self, inputs: list[TensorValue]) -> list[TensorValue]:
        machine = self.machine
        owners = storage_owners(inputs)
        is_written = {id(owners.get(memory_of(tensor), tensor)) for tensor in machine.tensor_writes}
        written = [tensor for tensor in inputs if id(tensor) in is_written]
        apart = not written or NoOverlap().holds(*[tensor.object for tensor in inputs])
        for tensor in written:
            if tensor.object.requires_grad:
                machine.guards.add(tensor.source, WrittenAs.of(tensor.object))
            for other in () if apart else inputs:
                if other is tensor:
                    continue
                if not NoOverlap().holds(tensor.object, other.object):
                    raise Break(AliasedMutation(tensor.source.expression(), other.source.expression()))
        if written and len(inputs) > 1:
            pairs = itertools.product(written, inputs)
            groups = [inputs] if apart else [pair for pair in pairs if pair[0] is not pair[1]]
            for group in groups:
                sizes = tuple(tensor.object.element_size() for tensor in group)
                machine.guards.add_group(tuple(tensor.source for tensor in group), NoOverlap(sizes))
        return written

    def refused(self, reason: Reason) -> Refused:
        span, stack = self.place()
        return Refused(reason, span, stack)


def may_compute(value: Value | None) -> bool:
    """Whether it is a tensor, a module or a function, or an object that holds such: its methods may."""
    kind = type(None) if value is None else value.python_type
    return issubclass(kind, COMPUTING) or (isinstance(value, InstanceValue) and holds_what_computes(value))


def holds_what_computes(value: InstanceValue) -> bool:
    own = (own_dictionary(value) or {}).values()
    written = (each.python_type for each in value.attributes.values())
    return any(isinstance(each, TENSORS) for each in own) or any(issubclass(each, TENSORS) for each in written)


TENSORS = (torch.Tensor, torch.nn.Module)
COMPUTING = (*TENSORS, FunctionType, MethodType)


def place_raised(error: Exception) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "?"


def storage_owners(inputs: list[TensorValue]) -> dict[int, TensorValue]:
    """By their memory the inputs, the first of several: what is written is a part of it, as a view or through `.data`."""
    return {memory_of(each): each for each in reversed(inputs)}


def memory_of(tensor: TensorValue) -> int:
    return tensor.example.untyped_storage()._cdata


def guard_cells(machine: Machine, outside: list[Value]) -> None:
    """Of a variable that is written: the closures that hold another one of its name now do so at later calls. A variable keeps its name."""
    cells = [value for value in outside if isinstance(value, CellValue)]
    for written in cells:
        for other in cells:
            if written.changed and other is not written and other.name == written.name:
                machine.guards.add_pair(cell_of(written.source), cell_of(other.source), NotSameObject())


def may_be_one(one: MutableValue, other: MutableValue) -> bool:
    return getattr(one, "cls", None) is getattr(other, "cls", None)
