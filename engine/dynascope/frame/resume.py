"""A function that goes on where another stopped.

    def f(a, b):                          def f(__stack0, a):
        return a + g(b) * 2        ->         push __stack0 ...; go to the `* 2` of f with the stack as it was there

`make_resume_code` copies the part of the original's instructions that can still be reached, unchanged and in order, and
puts a prologue before it that rebuilds the stack. Depths are the original's, so its exception table holds: inside a
`with`, the bound `__exit__` is an ordinary stack value; inside `except`, the exception being handled is made current
again. RESUME comes after the stack is rebuilt, under the handler of the resume point, so that even an interrupt on
entry goes through the user's `with` and `finally`.

Resuming a resume code resumes its root: names, places and size stay those of the user's function, however often it
breaks.
"""

from __future__ import annotations

import inspect
from collections.abc import Collection, Sequence
from dataclasses import replace
from types import CodeType

from dynascope.dataclass import dataclass
from dynascope.frame.builder import CodeBuilder, plain_shape
from dynascope.frame.instructions import Handler, Instruction, Position, decode
from dynascope.frame.liveness import Liveness, reachable
from dynascope.frame.reasons import ResumeInClassBody, ResumeInGenerator
from dynascope.frame.shape import GENERATOR_FLAGS, CodeShape
from dynascope.frame.stack_shape import NEVER_RAISES, SlotKind, Stack, StackSlot, stack_shapes
from dynascope.frame.versions import RUNNING
from dynascope.report.reason import Reason


class ResumeRefusal(Exception):
    """The function cannot be entered there. `reason` says why, for the user."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason.message())
        self.reason = reason


@dataclass(frozen=True, slots=True)
class StackParameter:
    """The value of a stack slot, counted from the bottom.

    For a slot of kind PREVIOUS_EXCEPTION it is the exception being handled there, not the one before it.
    """

    position: int


@dataclass(frozen=True, slots=True)
class LocalParameter:
    """The value of a local."""

    name: str


@dataclass(frozen=True, slots=True)
class CellParameter:
    """A cell itself, not its content: of a name that an inlined comprehension puts aside and brings back.

    As a free variable its slot must never be empty (3.12 crashes when a debugger looks), so it comes as an argument. So does
    one that holds nothing, if it is the function's own: Python says of a free variable in other words that it is unbound.
    """

    name: str


@dataclass(frozen=True, slots=True)
class CellContentParameter:
    """What a cell holds: the first argument of a method that an inner function shares, for `super()` to find."""

    name: str


Parameter = StackParameter | LocalParameter | CellParameter | CellContentParameter


@dataclass(frozen=True, slots=True)
class Resume:
    """`code` takes `parameters` in order, positionally; its closure is the cells of `code.co_freevars`.

    `at` is the resume point in `root`'s instructions, as an index into `decode(root)`.
    """

    code: CodeType
    parameters: tuple[Parameter, ...]
    root: CodeType
    at: int


@dataclass(frozen=True, slots=True, eq=False)
class ResumeOrigin:
    """Kept in a resume code's constants: which instruction of the root each of its own is.

    From instruction `entered` on the frame is as it was in the root before its instruction `at`; the copies of the
    root's instructions `kept` follow the prologue. `cell_arguments` names the parameters that are cells themselves.
    """

    root: CodeType
    at: int
    entered: int
    prologue_length: int
    kept: tuple[int, ...]
    cell_arguments: tuple[str, ...] = ()

    def root_index(self, index: int) -> int | None:
        """The root's index of the resume code's instruction `index`; None while the stack is being rebuilt."""
        if index < self.entered:
            return None
        return self.at if index < self.prologue_length else self.kept[index - self.prologue_length]


def resume_origin(code: CodeType) -> ResumeOrigin | None:
    """Where a resume code comes from; None for any other code."""
    first = code.co_consts[0] if code.co_consts else None
    return first if isinstance(first, ResumeOrigin) else None


def refusal_to_resume(code: CodeType) -> Reason | None:
    """Why no part of this code can be resumed, if so."""
    if code.co_flags & GENERATOR_FLAGS:
        return ResumeInGenerator(code.co_qualname)
    if not code.co_flags & inspect.CO_OPTIMIZED:
        return ResumeInClassBody(code.co_qualname)
    return None


def make_resume_code(
    code: CodeType,
    instructions: Sequence[Instruction],
    at: Instruction,
    null_positions: Collection[int],
    bound_locals: Collection[str],
    cells: Collection[str],
    empty_cells: Collection[str] = (),
) -> Resume:
    """The code that goes on with `at`, an instruction of `instructions` (which are `decode(code)`).

    `null_positions` are the stack slots that are NULL there, from the bottom; `bound_locals` the names of slots that
    hold a value, `cells` the names of slots that hold a cell (free variables included), `empty_cells` of those that hold
    nothing. Locals that are not live may be left out; live ones that are left out are unbound in the resumed function.
    """
    reason = refusal_to_resume(code)
    if reason is not None:
        raise ResumeRefusal(reason)
    root, instructions, index = at_root(code, instructions, instructions.index(at))
    return ResumeWriter(root, instructions, index, frozenset(null_positions), bound_locals, cells, empty_cells).write()


def at_root(
    code: CodeType, instructions: Sequence[Instruction], index: int
) -> tuple[CodeType, Sequence[Instruction], int]:
    """The same place in the user's own function, if `code` resumes one."""
    origin = resume_origin(code)
    root_index = origin.root_index(index) if origin else None
    if origin is None or root_index is None:
        return code, instructions, index
    return origin.root, decode(origin.root), root_index


class ResumeWriter:
    """The state of one `make_resume_code`."""

    def __init__(
        self,
        root: CodeType,
        instructions: Sequence[Instruction],
        index: int,
        null_positions: frozenset[int],
        bound_locals: Collection[str],
        cells: Collection[str],
        empty_cells: Collection[str] = (),
    ) -> None:
        self.root = root
        self.shape = CodeShape.of(root)
        self.instructions = instructions
        self.index = index
        self.at = instructions[index]
        self.stack: Stack = stack_shapes(instructions)[self.at]
        self.null_positions = null_positions
        self.kept = reachable(instructions, index)
        emptied = {instructions[i].value for i in self.kept if instructions[i].operation == "LOAD_FAST_AND_CLEAR"}
        emptied.update(name for name in empty_cells if name not in self.shape.free_variables)
        held = [name for name in self.shape.slots() if name in cells]
        self.free_variables = tuple(name for name in held if name not in emptied)
        self.cell_arguments = tuple(name for name in held if name in emptied)
        self.locals = tuple(name for name in self.shape.slots() if name in bound_locals)
        self.prefix = _unused_prefix(self.shape.slots())
        self.copies: Sequence[Instruction] = ()

    def write(self) -> Resume:
        parameters = self.parameters()
        copies = _copy(self.instructions, self.kept)
        self.check_unbound_loads(copies)
        builder = CodeBuilder(self.resume_shape(parameters, copies))
        self.copies = copies
        target = copies[self.kept.index(self.index)]
        self.write_prologue(builder, target, copies[0])
        entered = next(i for i, instruction in enumerate(builder.instructions) if instruction.operation == "RESUME")
        origin = self.origin(entered, len(builder.instructions))
        builder.extend(copies)
        builder.shape = replace(builder.shape, documentation=origin)
        return Resume(builder.build(), parameters, self.root, self.index)

    def origin(self, entered: int, prologue_length: int) -> ResumeOrigin:
        return ResumeOrigin(self.root, self.index, entered, prologue_length, tuple(self.kept), self.cell_arguments)

    # -- what comes in

    def parameters(self) -> tuple[Parameter, ...]:
        stack = [
            StackParameter(position)
            for position, slot in enumerate(self.stack)
            if position not in self.null_positions and not self.is_remade(position, slot)
        ]
        first = self.first_argument()
        others: list[Parameter] = [LocalParameter(name) for name in self.locals]
        others += [CellParameter(name) for name in self.cell_arguments]
        if first is not None and LocalParameter(first.name) in others:
            others.remove(LocalParameter(first.name))
        return (*((first,) if first else ()), *stack, *others)

    def is_remade(self, position: int, slot: StackSlot) -> bool:
        """The prologue can make it without being handed a value."""
        return slot.kind is SlotKind.OFFSET or self.is_second_previous_exception(position, slot)

    def is_second_previous_exception(self, position: int, slot: StackSlot) -> bool:
        """On the way out of a handler the slot is copied before POP_EXCEPT; both are one thing."""
        return slot.kind is SlotKind.PREVIOUS_EXCEPTION and slot in self.stack[:position]

    def first_argument(self) -> Parameter | None:
        """`super()` without arguments looks into the frame's first slot, so that must hold what it held."""
        if "__class__" not in self.shape.free_variables or not self.shape.positional_count:
            return None
        name = self.shape.locals[0]
        if name in self.free_variables or name in self.cell_arguments:
            return CellContentParameter(name)
        return LocalParameter(name) if name in self.locals else None

    def name_of(self, parameter: Parameter) -> str:
        match parameter:
            case StackParameter(position):
                return f"{self.prefix}{position}"
            case CellContentParameter():
                return f"{self.prefix}_first"
            case LocalParameter(name) | CellParameter(name):
                return name

    def resume_shape(self, parameters: Sequence[Parameter], copies: Sequence[Instruction]) -> CodeShape:
        made = {i.value for i in copies if i.operation == "MAKE_CELL"}.union(self.cell_arguments)
        names = [self.name_of(parameter) for parameter in parameters]
        shape = plain_shape(self.shape.name, names, self.shape)
        return replace(
            shape,
            free_variables=self.free_variables,
            cell_variables=tuple(n for n in self.shape.cell_variables if n in made and n not in self.free_variables),
        )

    # -- what is written

    def write_prologue(self, builder: CodeBuilder, target: Instruction, first: Instruction) -> None:
        builder.position = self.entry_position()
        self.write_start(builder)
        for position, slot in enumerate(self.stack):
            self.write_slot(builder, position, slot)
        with builder.protected_by(None if target.operation in NEVER_RAISES else target.handler):
            builder.emit("RESUME", 0)
            self.write_entry(builder, target, first)

    def write_entry(self, builder: CodeBuilder, target: Instruction, first: Instruction) -> None:
        if target is not first:
            builder.jump(target)

    def write_start(self, builder: CodeBuilder) -> None:
        if self.free_variables:
            builder.emit("COPY_FREE_VARS")

    def write_slot(self, builder: CodeBuilder, position: int, slot: StackSlot) -> None:
        if position in self.null_positions:
            builder.push_null()
        elif slot.kind is SlotKind.OFFSET:
            self.write_offset(builder, position)
        elif self.is_second_previous_exception(position, slot):
            builder.copy(position - self.stack.index(slot))
        else:
            builder.take_local(self.name_of(StackParameter(position)))
            if slot.kind is SlotKind.PREVIOUS_EXCEPTION:
                builder.emit("PUSH_EXC_INFO")
                builder.pop()

    def write_offset(self, builder: CodeBuilder, depth: int) -> None:
        """RERAISE wants a number there, which one only a debugger sees. Where it is no object, raising makes it."""
        if not RUNNING.offsets_are_tagged:
            builder.load_constant(0)
            return
        caught = Instruction("POP_TOP", position=builder.position)
        with builder.protected_by(Handler(caught, depth, push_lasti=True)):
            builder.load_constant(InterruptedError)
            builder.raise_()
        builder.extend([caught])

    def entry_position(self) -> Position | None:
        """The first place known from the resume point on: compiler-made instructions may have none."""
        following = self.instructions[self.index :]
        return next((i.position for i in following if i.position is not None), None)

    def check_unbound_loads(self, copies: Sequence[Instruction]) -> None:
        """Loads that Python's compiler proved bound are no longer so for a local that is not handed in."""
        if not RUNNING.has_unchecked_loads:
            return
        live = Liveness(self.instructions, self.shape).before(self.at)
        missing = live.difference(self.locals, self.free_variables, self.cell_arguments)
        for copy in copies:
            if copy.operation == "LOAD_FAST" and copy.value in missing:
                copy.operation = "LOAD_FAST_CHECK"


def _unused_prefix(names: Collection[str]) -> str:
    prefix = "__stack"
    while any(name.startswith(prefix) for name in names):
        prefix = f"_{prefix}"
    return prefix


def _copy(instructions: Sequence[Instruction], kept: Sequence[int]) -> list[Instruction]:
    """Copies of the kept instructions, with jumps and handlers among themselves."""
    copy_of = {instructions[index]: instructions[index].copy() for index in kept}
    handlers: dict[Handler, Handler] = {}
    for copy in copy_of.values():
        if copy.target is not None:
            copy.target = copy_of[copy.target]
        handler = copy.handler
        if handler is not None:
            if handler not in handlers:
                handlers[handler] = Handler(copy_of[handler.target], handler.depth, handler.push_lasti)
            copy.handler = handlers[handler]
    return list(copy_of.values())
