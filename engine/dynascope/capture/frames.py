"""A function being interpreted: where it is, its stack, its slots. No meaning of instructions here.

`checkpoint` is the frame as it was before its current instruction: what a break goes back to.
"""

from __future__ import annotations

from dataclasses import field, replace
from functools import lru_cache
from types import CodeType
from typing import TYPE_CHECKING, Any

from dynascope.capture.places import is_engine, is_own
from dynascope.capture.values import UNSEEN, FunctionValue, GeneratorValue, Value
from dynascope.dataclass import dataclass
from dynascope.frame.instructions import Instruction, decode
from dynascope.report.span import Layer, Span, UserFrame

if TYPE_CHECKING:
    from dynascope.capture.early_returns import EarlyReturn


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """A decoded code object. `index` finds an instruction's place in the list."""

    code: CodeType
    instructions: list[Instruction]
    index: dict[Instruction, int]
    last_line: int


@lru_cache(maxsize=4096)
def _program_by_identity(key: Identity) -> Program:
    instructions = decode(key.code)
    last_line = max((line for _, _, line in key.code.co_lines() if line), default=key.code.co_firstlineno)
    return Program(key.code, instructions, {instruction: at for at, instruction in enumerate(instructions)}, last_line)


@dataclass(frozen=True, slots=True)
class Identity:
    """Code objects are equal when their text is; places in them are not."""

    code: CodeType = field(compare=False)
    identity: int


def program_of(code: CodeType) -> Program:
    return _program_by_identity(Identity(code, id(code)))


@dataclass(slots=True)
class Checkpoint:
    """`position` is that of the instruction about to run; `stack` as it was; `mark` says where the journal was."""

    position: int
    stack: list[Value]
    mark: int


class Frame:
    """One activation. `slots` maps local, cell and free variable names to values (cells hold a CellValue)."""

    __slots__ = (
        "began",
        "checkpoint",
        "delivery",
        "early",
        "function",
        "generator",
        "globals",
        "is_own",
        "is_seen",
        "layer",
        "next",
        "pending_cause",
        "position",
        "program",
        "slots",
        "shown",
        "stack",
        "visited",
    )

    def __init__(self, function: FunctionValue, slots: dict[str, Value]) -> None:
        self.function = function
        self.program = program_of(function.code)
        self.globals = function.globals
        self.is_own = is_own(function.globals)
        self.is_seen = self.is_own and not is_engine(function.globals)
        self.slots = slots
        self.stack: list[Value] = []
        self.position = 0
        self.next = 0
        # What the caller does with the result: "push" it, or "drop" it.
        self.delivery = "push"
        self.generator: GeneratorValue | None = None
        # How much the graph held when the function was called, and which instruction of all called it.
        self.began = (0, 0)
        # Found when first asked for; False where the frame is of no layer.
        self.layer: Layer | bool | None = None
        self.visited: set[int] | None = None
        # The place, as users see it, and the position that it is of.
        self.shown: tuple[int, UserFrame] | None = None
        self.checkpoint = Checkpoint(0, [], 0)
        # What the function returns on the way that was left out, where the graph takes one of both.
        self.early: EarlyReturn | None = None

    @property
    def code(self) -> CodeType:
        return self.program.code

    @property
    def instruction(self) -> Instruction:
        return self.program.instructions[self.position]

    def remember(self, mark: int) -> None:
        """The current instruction may break: the frame and the journal as they are before it."""
        checkpoint = self.checkpoint
        checkpoint.position, checkpoint.stack, checkpoint.mark = self.position, self.stack[:], mark

    def push(self, value: Value) -> None:
        self.stack.append(value)

    def pop(self) -> Value:
        """The top, looked at: something from outside is guarded now."""
        value = self.stack.pop()
        return value.realize() if value.__class__ in UNSEEN else value

    def pop_pair(self) -> tuple[Value, Value]:
        """The two topmost, looked at in the order in which the program names them."""
        right, left = self.stack.pop(), self.stack.pop()
        left = left.realize() if left.__class__ in UNSEEN else left
        return left, right.realize() if right.__class__ in UNSEEN else right

    def pop_unseen(self) -> Value:
        """The top, only moved: no guard."""
        return self.stack.pop()

    def pop_many(self, count: int) -> list[Value]:
        """The topmost `count`, lowest first, not looked at."""
        if not count:
            return []
        values = self.stack[-count:]
        del self.stack[-count:]
        return values

    def jump(self, target: Instruction) -> None:
        self.next = self.program.index[target]

    def user_frame(self, layer: Layer | None = None) -> UserFrame:
        shown = self.shown
        if shown is None or shown[0] != self.position:
            code = self.code
            found = UserFrame(code.co_qualname, span_of(code, self.instruction), code.co_firstlineno, self.program.last_line)
            shown = self.shown = (self.position, found)
        return shown[1] if layer is None else replace(shown[1], layer=layer)

    def snapshot(self) -> tuple[Any, ...]:
        """Everything that changes when the frame runs on (for generators, which are left and entered again)."""
        return (self.position, self.next, list(self.stack), dict(self.slots), self.checkpoint)

    def restore(self, snapshot: tuple[Any, ...]) -> None:
        self.position, self.next, self.stack, self.slots, self.checkpoint = snapshot


def span_of(code: CodeType, instruction: Instruction) -> Span:
    position = instruction.position
    if position is None:
        return Span(code.co_filename, code.co_firstlineno)
    return Span(code.co_filename, position.line, position.column, position.end_line, position.end_column)
