"""From a captured part to a new code object: load the inputs, call the graph, replay the effects, leave.

    def f(x):                              def f(x):
        self.calls += 1          ->            try: y, = graph(x)
        return x * 2                           except Exception: return AS_WRITTEN
                                               object.__setattr__(self, "calls", 4)
                                               return y

`Plan` is what capture hands over; `write` makes the code.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from types import CodeType, FunctionType
from typing import Any

import torch
from torch import fx

from dynascope.capture.effects import Effects, replay
from dynascope.capture.exits import FrameState, MakeTable, Step, StepWriter
from dynascope.capture.graph import CapturedGraph
from dynascope.capture.inference_calls import InferenceCall
from dynascope.capture.lock_uses import give_back, take
from dynascope.capture.parts import all_parts
from dynascope.capture.reconstruct import Rebuilder
from dynascope.capture.region import CodeRegion
from dynascope.capture.told_views import giving_views, told_places
from dynascope.capture.tracebacks import relocation
from dynascope.capture.values import InferenceModeValue, Value
from dynascope.dataclass import dataclass
from dynascope.frame import hook
from dynascope.frame.builder import CodeBuilder
from dynascope.frame.instructions import Handler, Instruction, Position
from dynascope.frame.shape import CodeShape
from dynascope.guards.check import loading_call, parameter_names
from dynascope.guards.source import LocalSource, Source

PASSES = "__dynascope_passes__"
"""The mark of an error after which the call must not begin anew."""
ERRORS_OF_OPERATORS = (ArithmeticError, LookupError, MemoryError, RuntimeError, TypeError, ValueError)
"""What torch's operators raise. Other exceptions are somebody's way through the call, such as the end of a recomputation
under checkpoint, which a hook on saved tensors raises: the call must not begin anew."""


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """`result` is what the region returns; for a break, `frames` are the frames to go on with, outermost first."""

    region: CodeRegion
    outputs: tuple[fx.Node, ...]
    effects: Effects
    result: Value | None
    frames: tuple[FrameState, ...] = ()
    inputs: tuple[Source, ...] = ()
    """Without a graph: the places of the outputs, which are the program's own numbers."""
    restore: Callable[[], None] | None = None
    """Puts torch's own state back to what it was at the start, where the graph itself changes it."""
    is_unseen: bool = False
    """Whether function modes are on when it starts: what they say is in the graph."""
    inference: InferenceCall = InferenceCall()
    """Whether the graph is called in inference mode, and which of its results are made there."""
    records: bool = False
    """Whether the graph is called with gradients on, which are off around it."""
    leaves_begun: frozenset[Source] = frozenset()
    """Inputs that require no grad and are told to before the graph is called."""

    @property
    def keeps_history(self) -> bool:
        """Whether autograd knows where any output of the graph comes from."""
        examples = (node.meta.get("example_value") for node in self.outputs)
        return any(isinstance(each, torch.Tensor) and each.requires_grad for each in examples)

    def roots(self) -> Iterable[Value]:
        """Every value that the new code must have."""
        yield from self.effects.values()
        if self.result is not None:
            yield self.result
        for frame in self.frames:
            yield from frame.stack
            yield from frame.slots.values()


def write(
    plan: Plan,
    graph: CapturedGraph | None,
    graph_callable: Any,
    make_table: MakeTable,
    repeatable: bool,
    stands_aside: Callable[[], bool] | None,
    holds: Callable[..., bool] | None,
) -> CodeType:
    """The code that stands for the region."""
    return PlanWriter(plan, make_table, holds).write(graph, graph_callable, repeatable, stands_aside)


def unseen(graph: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        with torch._C.DisableTorchFunction():
            return graph(*arguments)

    return call


def recording(graph: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        torch._C._set_grad_enabled(True)
        try:
            return graph(*arguments)
        finally:
            torch._C._set_grad_enabled(False)

    return call


def beginning(graph: Callable[..., Any], places: Sequence[int]) -> Callable[..., Any]:
    """Where the graph raises, the program may not have come to where it tells these leaves to require grad."""

    def call(*arguments: Any) -> Any:
        is_whole = False
        for at in places:
            arguments[at].requires_grad_(True)
        try:
            results = graph(*arguments)
            is_whole = True
            return results
        finally:
            for at in () if is_whole else places:
                arguments[at].requires_grad_(False)

    return call


class PlanWriter:
    def __init__(self, plan: Plan, make_table: MakeTable, holds: Callable[..., bool] | None = None) -> None:
        self.plan, self.make_table, self.holds = plan, make_table, holds
        self.code = plan.region.code
        self.builder = CodeBuilder(CodeShape.of(self.code))
        self.rebuilder = Rebuilder(self.builder, self.code.co_cellvars)

    def write(
        self,
        graph: CapturedGraph | None,
        graph_callable: Any,
        repeatable: bool,
        stands_aside: Callable[[], bool] | None,
    ) -> CodeType:
        self.builder.prologue()
        if stands_aside is not None:
            self.stand_aside(stands_aside)
        if not any(use.taken for use in self.plan.effects.locks):
            self.run(graph, graph_callable, repeatable)
            return self.builder.build()
        self.take_locks()
        failed = self.builder.label()
        with self.builder.protected_by(Handler(failed, 0, False)):
            if self.holds is not None:
                self.ask_again(self.holds)
            self.run(graph, graph_callable, repeatable)
        self.builder.place(failed)
        self.builder.emit("PUSH_EXC_INFO")
        self.give_back([use.taken for use in self.plan.effects.locks])
        self.reraise()
        return self.builder.build()

    def run(self, graph: CapturedGraph | None, graph_callable: Any, repeatable: bool) -> None:
        failed = self.builder.label()
        if graph is not None:
            with self.builder.protected_by(Handler(failed, 0, False)):
                self.call_graph(graph, graph_callable)
            self.unpack_outputs()
        else:
            for source in reversed(self.plan.inputs):
                self.rebuilder.load_source(source)
        self.keep_outputs()
        if self.plan.frames:
            self.leave_by_step()
        else:
            self.leave_by_return()
        if graph is not None:
            self.builder.place(failed)
            self.run_as_written(relocation(graph.module.graph), repeatable)

    # Locks

    def take_locks(self) -> None:
        uses = self.plan.effects.locks
        for use in uses:
            self.rebuilder.prepare(use.lock)
        self.call_on_locks(take, [use.taken for use in uses])

    def ask_again(self, holds: Callable[..., bool]) -> None:
        """Who held a lock until now may have changed what the guards saw: the call is then as it was written."""
        builder = self.builder
        goes_on = builder.label()
        builder.load_function(holds)
        names = parameter_names(self.code)
        for name in names:
            self.rebuilder.load_name(LocalSource(name))
        builder.build_tuple(len(names))
        self.load_like(self.code)
        builder.call(2)
        builder.emit("POP_JUMP_IF_TRUE").target = goes_on
        self.give_back([use.taken for use in self.plan.effects.locks])
        builder.load_constant(hook.AS_WRITTEN)
        builder.return_value()
        builder.place(goes_on)

    def load_like(self, code: CodeType) -> None:
        """Pushes a function with the free variables and names of this one."""
        if not code.co_freevars:
            self.builder.load_constant(FunctionType(code, self.plan.effects.own_globals))
            return
        self.builder.load_function(FunctionType)
        for constant in (code, self.plan.effects.own_globals, code.co_name, None):
            self.builder.load_constant(constant)
        for name in code.co_freevars:
            self.builder.load_cell_itself(name)
        self.builder.build_tuple(len(code.co_freevars))
        self.builder.call(5)

    def give_back(self, times: Sequence[int]) -> None:
        if any(times):
            self.call_on_locks(give_back, times)

    def call_on_locks(self, function: Callable[..., None], times: Sequence[int]) -> None:
        self.builder.load_function(function)
        uses = self.plan.effects.locks
        self.builder.build_tuple(self.rebuilder.load_all([use.lock for use in uses]))
        self.builder.load_constant(tuple(times))
        self.builder.call(2)
        self.builder.pop()

    def leave(self) -> None:
        """Returns what is on the stack."""
        with self.builder.protected_by(None):
            self.give_back([use.given_back for use in self.plan.effects.locks])
            self.builder.return_value()

    def stand_aside(self, asked: Callable[[], bool]) -> None:
        """Where hooks on saved tensors are set, and are the program's own, nothing has been done yet and the call is as written."""
        builder = self.builder
        goes_on = builder.label()
        builder.load_function(torch._C._autograd._top_saved_tensors_default_hooks)
        builder.load_constant(True)
        builder.call(1)
        builder.jump_if_none(goes_on)
        builder.load_function(asked)
        builder.call(0)
        builder.emit("POP_JUMP_IF_FALSE").target = goes_on
        builder.load_constant(hook.AS_WRITTEN)
        builder.return_value()
        builder.place(goes_on)

    def call_graph(self, graph: CapturedGraph, graph_callable: Any) -> None:
        if told := told_places(self.plan.outputs):
            graph_callable = giving_views(graph_callable, told)
        graph_callable = recording(graph_callable) if self.plan.records else graph_callable
        graph_callable = unseen(graph_callable) if self.plan.is_unseen else graph_callable
        if places := [at for at, source in enumerate(graph.sources) if source in self.plan.leaves_begun]:
            graph_callable = beginning(graph_callable, places)
        graph_callable = self.plan.inference.of(graph_callable)
        callable, arguments = loading_call(graph_callable, graph.sources)
        self.rebuilder.share_prefixes(arguments)
        self.builder.load_function(callable)
        for source in arguments:
            self.rebuilder.load_source(source)
        self.builder.call(len(arguments))

    def unpack_outputs(self) -> None:
        if self.plan.outputs:
            self.builder.unpack(len(self.plan.outputs))
        else:
            self.builder.pop()

    def keep_outputs(self) -> None:
        for node in self.plan.outputs:
            name = self.rebuilder.outputs[node] = self.rebuilder.new_temporary()
            self.builder.store_local(name)

    def run_as_written(self, relocate: Callable[[], None], repeatable: bool) -> None:
        """The graph raised. If nothing outside has changed, plain Python does what comes before the error, and raises it."""
        builder = self.builder
        other = builder.label()
        builder.emit("PUSH_EXC_INFO")
        if repeatable:
            self.leave_as_written(other)
        builder.place(other)
        builder.load_function(relocate)
        builder.call(0)
        builder.pop()
        self.reraise()

    def reraise(self) -> None:
        self.builder.swap(2)
        self.builder.emit("POP_EXCEPT")
        self.builder.emit("RERAISE", 0)

    def leave_as_written(self, other: Instruction) -> None:
        builder = self.builder
        builder.load_constant(ERRORS_OF_OPERATORS)
        builder.emit("CHECK_EXC_MATCH")
        builder.emit("POP_JUMP_IF_FALSE").target = other
        builder.load_function(error_passes)
        builder.call(0)
        builder.emit("POP_JUMP_IF_TRUE").target = other
        builder.pop()
        builder.emit("POP_EXCEPT")
        if self.plan.restore is not None:
            builder.load_function(self.plan.restore)
            builder.call(0)
            builder.pop()
        self.give_back([use.taken for use in self.plan.effects.locks])
        builder.load_constant(hook.AS_WRITTEN)
        builder.return_value()

    def leave_by_return(self) -> None:
        if self.plan.effects:
            self.prepare((*self.plan.effects.values(), self.plan.result))
            replay(self.plan.effects, self.rebuilder)
        self.rebuilder.load(self.plan.result)
        self.leave()

    def prepare(self, values: Sequence[Value]) -> None:
        """What enters inference mode as it is made comes last: others may make tensors."""
        if self.plan.effects.entered is not None:
            values = sorted(values, key=enters_inference_mode)
        for value in values:
            self.rebuilder.prepare(value)

    # Breaks

    def leave_by_step(self) -> None:
        steps = self.steps()
        arguments = [value for step in steps for value in step.arguments if value is not None]
        if self.plan.effects:
            cells = [
                state.slots[name] for state, step in zip(self.plan.frames, steps, strict=True) for name in step.cells
            ]
            self.prepare((*self.plan.effects.values(), *cells, *arguments))
            replay(self.plan.effects, self.rebuilder)
        with self.builder.at(self.position()):
            self.builder.load_function(hook.tail_call)
            self.load_step(steps, 0)
            self.load_arguments(steps, 0)
            self.builder.call(1 + len(steps[0].arguments))
            self.leave()

    def position(self) -> Position | None:
        return self.plan.frames[0].instruction.position

    def steps(self) -> list[Step]:
        """One for each frame. Those outside resume regions of their own functions."""
        last = len(self.plan.frames) - 1
        return [
            StepWriter(state, self.region_of(at), self.make_table, None if at == last else "call").write()
            for at, state in enumerate(self.plan.frames)
        ]

    def region_of(self, at: int) -> CodeRegion:
        if at == 0:
            return self.plan.region
        state = self.plan.frames[at]
        return CodeRegion(state.code, state.name, tables=self.plan.region.root.tables)

    def load_step(self, steps: list[Step], at: int) -> None:
        """Pushes the step's function."""
        step, state = steps[at], self.plan.frames[at]
        if not step.cells:
            self.builder.load_constant(FunctionType(step.code, state.globals))
            return
        self.builder.load_function(FunctionType)
        self.builder.load_constant(step.code)
        self.builder.load_constant(state.globals)
        self.builder.load_constant(step.code.co_name)
        self.builder.load_constant(None)
        for name in step.cells:
            self.rebuilder.load(state.slots[name])
        self.builder.build_tuple(len(step.cells))
        self.builder.call(5)

    def load_arguments(self, steps: list[Step], at: int) -> None:
        for position, value in enumerate(steps[at].arguments):
            if value is not None:
                self.rebuilder.load(value)
            elif position == steps[at].inner_argument:
                self.load_step(steps, at + 1)
                self.load_arguments(steps, at + 1)
                self.builder.build_tuple(1 + len(steps[at + 1].arguments))
            else:
                self.builder.load_constant(None)


def enters_inference_mode(value: Value) -> bool:
    return any(isinstance(part, InferenceModeValue) for part in all_parts([value]))


def error_passes() -> bool:
    """Whether the error being handled must leave the call, because the call cannot begin anew: what autograd keeps goes through
    the program's own functions, such as checkpoint's, which have been called then and may have raised to say that they have seen
    enough; or the graph had written to inputs whose history cannot be taken back (`repeatable.py`)."""
    return torch._C._autograd._top_saved_tensors_default_hooks(True) is not None or hasattr(sys.exc_info()[1], PASSES)
