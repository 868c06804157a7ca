"""How a captured part ends, and the code of the steps that Python runs itself.

At a break Python runs one instruction in a *step function*: the rest of the user's function from that instruction on, in
which the instruction is followed by a call of the compiled continuation.

    y = g(x); print(y); return y + 1

    def f(x):     y, = graph(x); return tail_call(step, y)      the compiled code
    def step(y):  print(y);      return tail_call(resume, y)    the user's own instructions, in the user's own `try` and `with`
    resume                                                      captured when it is first called: `return y + 1`

What the instruction raises goes to the user's handlers inside the step function. A break inside inlined calls makes one
step for every frame: the inner one's result is what the outer one's call gave. A tail call runs when the frame that asks for
it is gone: whoever looks at the stack of frames finds each of the user's functions once, at its own line.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from types import CodeType, FunctionType
from typing import Any

from dynascope.capture.frames import Frame, span_of
from dynascope.capture.region import CodeRegion
from dynascope.capture.values import CellValue, ConditionValue, NullValue, TensorValue, Value
from dynascope.dataclass import dataclass
from dynascope.frame import hook
from dynascope.frame.builder import CodeBuilder
from dynascope.frame.instructions import Instruction, decode
from dynascope.frame.liveness import Liveness, may_read_whole_frame
from dynascope.frame.resume import (
    CellContentParameter,
    CellParameter,
    LocalParameter,
    Resume,
    ResumeRefusal,
    StackParameter,
    make_resume_code,
    resume_origin,
)
from dynascope.frame.shape import CodeShape
from dynascope.frame.stack_shape import NULL, VALUE, SlotKind, stack_after, stack_shapes
from dynascope.frame.versions import ENDS, RUNNING
from dynascope.guards.source import ExtentSource, LocalSource
from dynascope.report.reason import Reason
from dynascope.report.span import Span, UserStack

MakeTable = Callable[[CodeType, CodeRegion], Any]


@dataclass(frozen=True, slots=True)
class Return:
    """The function ran to its end."""


@dataclass(frozen=True, slots=True)
class BreakExit:
    """Python runs one instruction; what follows is a region of its own."""

    reason: Reason
    span: Span
    stack: UserStack


@dataclass(frozen=True, slots=True)
class RaiseExit:
    """The program raises here: Python runs the instruction that does."""

    reason: Reason
    span: Span
    stack: UserStack
    is_caught: bool = False
    """There is a handler in the captured part, which Python runs too."""


Exit = Return | BreakExit | RaiseExit


@dataclass(frozen=True, slots=True, eq=False)
class FrameState:
    """A frame at a break: before its instruction for the innermost, waiting for the result of its call for others."""

    code: CodeType
    instructions: Sequence[Instruction]
    position: int
    stack: tuple[Value, ...]
    slots: dict[str, Value]
    globals: dict
    name: str
    delivery: str
    kept: frozenset[str] = frozenset()
    """Locals that nothing reads any more, of which the frame must not let go."""
    varying: Mapping[str, tuple[int, ...] | None] = field(default_factory=dict)
    """Locals that other calls have with other sizes, and in which dimensions; None of a number that will be another."""
    gives_data: bool = False
    """Whether what Python's instruction gives depends on what a tensor holds."""

    @property
    def instruction(self) -> Instruction:
        return self.instructions[self.position]

    @property
    def cells(self) -> tuple[str, ...]:
        return tuple(name for name, value in self.slots.items() if isinstance(value, CellValue))

    @property
    def locals(self) -> tuple[str, ...]:
        return tuple(name for name, value in self.slots.items() if not isinstance(value, CellValue))


def state_of(frame: Frame, delivery: str) -> FrameState:
    return FrameState(
        frame.code,
        frame.program.instructions,
        frame.position,
        tuple(frame.stack),
        dict(frame.slots),
        frame.globals,
        frame.function.name,
        delivery,
    )


class StepRefused(Exception):
    """The frame cannot be left and entered again here."""

    def __init__(self, reason: Reason | None) -> None:
        self.reason = reason


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """A step function's code, and what it must be called with: values, or None for operands that are not there."""

    code: CodeType
    cells: tuple[str, ...]
    arguments: tuple[Value | None, ...]
    inner_argument: int | None
    """Which argument carries the inner step and its arguments, for frames that wait for a call."""


@dataclass(frozen=True, slots=True, eq=False)
class Continuation:
    """What runs after the step's instruction: on the way straight on, or at the target of its jump."""

    resume: Resume
    skipped: tuple[Instruction, ...]
    """Instructions at the jump's target that belong to the jump itself (END_FOR)."""


class StepWriter:
    """Makes the step function of one frame. `waits` says that the frame waits for an inner frame's result."""

    def __init__(self, state: FrameState, region: CodeRegion, make_table: MakeTable, waits: str | None) -> None:
        self.state, self.region, self.make_table, self.waits = state, region, make_table, waits
        self.shapes = stack_shapes(state.instructions)
        self.live = Liveness(state.instructions, CodeShape.of(state.code))
        self.depth = len(self.shapes[state.instruction])

    def write(self) -> Step:
        self.check()
        entry = self.resume_at(self.state.instruction, self.entry_nulls())
        instructions = list(decode(entry.code))
        self.splice(instructions, entry)
        builder = CodeBuilder(CodeShape.of(entry.code))
        builder.shape = replace(builder.shape, documentation=StepMark(resume_origin(entry.code)))
        builder.extend(instructions)
        return Step(builder.build(), entry.code.co_freevars, *self.arguments(entry))

    def check(self) -> None:
        """Frames inside `except` clauses hold the interpreter's own exception state. A cell that holds nothing yet travels as an argument,
        which who lists the frame's names would find."""
        if self.empty_cells() and may_read_whole_frame(self.state.instructions, self.state.instruction):
            raise StepRefused(None)
        kinds = {slot.kind for slot in self.shapes[self.state.instruction]}
        if SlotKind.PREVIOUS_EXCEPTION in kinds or self.state.instruction.operation in (
            "PUSH_EXC_INFO",  # what it sets would stay set when the step's frame is gone
            "RERAISE",
            "SEND",
            "YIELD_VALUE",
        ):
            raise StepRefused(None)
        # It may leave nothing above the callable, which only the C hook can carry to what follows.
        if self.state.instruction.operation == "LOAD_SPECIAL" and not hook.is_native():
            raise StepRefused(None)
        # BEFORE_WITH keeps the `__exit__` it pushed: there is no operand in whose place the inner step could travel.
        if self.waits is not None and self.depth <= len(self.state.stack):
            raise StepRefused(None)

    def empty_cells(self) -> list[str]:
        return [name for name in self.state.cells if self.state.slots[name].content is None]

    def entry_nulls(self) -> list[int]:
        return [at for at, value in enumerate(self.state.stack) if isinstance(value, NullValue)]

    def nulls_after(self, taken: bool) -> list[int]:
        """Where NULLs lie after the instruction: those of the entry that it leaves where they are."""
        entry = self.entry_nulls()
        before = tuple(NULL if at in entry else VALUE for at in range(self.depth))
        after = stack_after(self.state.instruction, before, jumps=taken)
        return [at for at, slot in enumerate(after) if slot is NULL]

    def resume_at(self, instruction: Instruction, nulls: Sequence[int]) -> Resume:
        live = self.live.before(instruction)
        bound = [name for name in self.state.locals if name in live or name in self.state.kept]
        # `super()` reads the first parameter from the frame itself.
        try:
            return make_resume_code(
                self.state.code, self.state.instructions, instruction, nulls, bound, self.state.cells, self.empty_cells()
            )
        except ResumeRefusal as refusal:
            raise StepRefused(refusal.reason) from None

    def arguments(self, entry: Resume) -> tuple[tuple[Value | None, ...], int | None]:
        values: list[Value | None] = []
        inner = None
        for parameter in entry.parameters:
            match parameter:
                case StackParameter(position) if position < len(self.state.stack):
                    values.append(self.state.stack[position])
                case StackParameter(_):
                    inner = len(values) if inner is None else inner
                    values.append(None)
                case LocalParameter(name) | CellParameter(name):
                    values.append(self.state.slots[name])
                case CellContentParameter(name):
                    values.append(self.state.slots[name].content)
        return tuple(values), inner

    # The instruction, and what follows it

    def splice(self, instructions: list[Instruction], entry: Resume) -> None:
        """Appends the step: the instruction, the continuation behind it, and one at its jump's target.

        The user's own code stays whole, for handlers that run on in it; only the way in leads to the step.
        """
        origin = resume_origin(entry.code)
        at = origin.prologue_length + origin.kept.index(entry.at)
        run = instructions[at].copy()
        writer = CodeBuilder(CodeShape.of(self.state.code))
        writer.position = run.position
        if run.handler is not None:
            # Since 3.13 the handler of an error out of a Python function is looked for where the word before the call stands.
            with writer.protected_by(run.handler):
                writer.emit("NOP")
        if self.waits is not None:
            self.write_inner_call(writer, run)
        else:
            self.write_instruction(writer, run)
        if run.operation not in ENDS:
            self.write_continuation(writer, self.next_instruction(), taken=False)
        if run.target is not None:
            writer.place(label := writer.label())
            target = run.target
            run.target = label
            skipped = RUNNING.loop_exit_length if run.operation == "FOR_ITER" else 0
            place = instructions.index(target)
            for instruction in instructions[place : place + skipped]:
                writer.extend([instruction.copy()])
            if skipped:
                writer.instructions.remove(label)
                run.target = writer.instructions[-skipped]
            self.write_continuation(writer, self.target_instruction(skipped), taken=True)
        if at == origin.prologue_length:
            entering = Instruction("JUMP_FORWARD", position=run.position, handler=run.handler)
            instructions.insert(at, entering)
        else:
            entering = instructions[origin.prologue_length - 1]
        entering.target = writer.instructions[0]
        instructions.extend(writer.instructions)

    def write_instruction(self, writer: CodeBuilder, run: Instruction) -> None:
        if run.operation in TAKE_BOOL and RUNNING.jumps_need_bool and isinstance(self.state.stack[-1], (TensorValue, ConditionValue)):
            with writer.protected_by(run.handler):
                writer.emit("TO_BOOL")
        if run.is_method:
            run.bits &= ~1
        writer.extend([run])

    def write_inner_call(self, writer: CodeBuilder, run: Instruction) -> None:
        """The operands are gone but for one, which carries the inner step: call it in place of the instruction."""
        consumed = self.depth - len(self.state.stack)
        with writer.protected_by(run.handler):
            for _ in range(consumed - 1):
                writer.pop()
            writer.store_local("__inner")
            writer.load_function(hook.complete)
            writer.take_local("__inner")
            writer.call_unpacked()
            if self.state.delivery == "drop":
                writer.pop()

    def next_instruction(self) -> Instruction:
        return self.state.instructions[self.state.position + 1]

    def target_instruction(self, skipped: int) -> Instruction:
        instructions = self.state.instructions
        place = instructions.index(self.state.instruction.target)
        return instructions[place + skipped]

    def write_continuation(self, writer: CodeBuilder, following: Instruction, *, taken: bool) -> None:
        """Moves the stack into locals, then calls the resumed region with what it wants."""
        depth = len(self.shapes[following])
        nulls = [at for at in self.nulls_after(taken) if at < depth]
        attribute_pushed = self.waits is None and self.state.instruction.is_method and not taken
        if attribute_pushed:
            nulls.append(depth - (1 if RUNNING.null_above_callable else 2))
        on_stack = [at for at in range(depth) if not (attribute_pushed and at == nulls[-1])]
        for at in reversed(on_stack):
            writer.store_local(f"__slot_{at}")
        resume = self.resume_at(following, nulls)
        writer.load_function(hook.tail_call)
        gives = None if taken or not self.state.instruction.operation.startswith("CALL") else depth - 1
        self.load_dispatcher(writer, resume, gives)
        for parameter in resume.parameters:
            match parameter:
                case StackParameter(position):
                    writer.load_local(f"__slot_{position}")
                case LocalParameter(name):
                    writer.load_local(name)
                case CellParameter(name):
                    writer.load_cell_itself(name)
                case CellContentParameter(name):
                    writer.load_cell(name)
        writer.call(1 + len(resume.parameters))
        writer.return_value()

    def load_dispatcher(self, writer: CodeBuilder, resume: Resume, gives: int | None) -> None:
        resume, table = self.table_of(resume, gives)
        if not resume.code.co_freevars:
            writer.load_constant(table.bind(FunctionType(resume.code, self.state.globals)))
            return
        writer.load_function(table.bind)
        writer.make_function(resume.code)
        writer.call(1)

    def table_of(self, resume: Resume, gives: int | None) -> tuple[Resume, Any]:
        """The entry table of the place, the same however often and from wherever it is reached. `gives` is where on the stack the result
        of the call lies that Python makes."""
        tables = self.region.root.tables
        key = (id(resume.root), resume.at, resume.parameters, resume.code.co_freevars)
        known = tables.get(key)
        if known is None:
            span = span_of(self.state.code, self.state.instruction)
            region = CodeRegion(resume.code, self.state.name, self.region, span)
            table = self.make_table(resume.code, region)
            if isinstance(table, NoTable):
                return resume, table
            known = tables[key] = (resume, table, region)
        resume, table, region = known
        self.note_what_varies(resume, region, gives)
        return resume, table

    def note_what_varies(self, resume: Resume, region: CodeRegion, gives: int | None) -> None:
        """So that the region has it as an input from its first call on."""
        for name, parameter in zip(resume.code.co_varnames, resume.parameters, strict=False):
            if isinstance(parameter, StackParameter) and parameter.position == gives:
                (region.varying if self.state.gives_data else region.results).add(LocalSource(name))
            elif isinstance(parameter, LocalParameter) and parameter.name in self.state.varying:
                place, dimensions = LocalSource(name), self.state.varying[parameter.name]
                places = [place] if dimensions is None else [ExtentSource(place, "size", d) for d in dimensions]
                region.varying.update(places)


TAKE_BOOL = ("POP_JUMP_IF_TRUE", "POP_JUMP_IF_FALSE", "UNARY_NOT")
"""Since 3.13 these ask no object for its truth: what is not True is False."""


class NoTable:
    """Stands for the table of a region while it is only tried whether the step can be written."""

    def bind(self, function: FunctionType) -> FunctionType:
        return function


def no_table(code: CodeType, region: CodeRegion) -> NoTable:
    return NoTable()


@dataclass(frozen=True, slots=True, eq=False)
class StepMark:
    """Marks the code of a step function, which nobody should try to capture: it starts with what could not be."""

    origin: Any


def is_step_code(code: CodeType) -> bool:
    return bool(code.co_consts) and isinstance(code.co_consts[0], StepMark)
