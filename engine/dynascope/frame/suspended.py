"""A generator that waits where another one waits.

    def g(n):                              def g(n):
        for k in range(n):                     push the iterator; go to the `yield` of g with the stack as it was there
            yield k * 2            ->

The code is a generator function's: it takes what the waiting frame holds and begins with that frame's own `yield`, so that
`next`, `send`, `throw` and `close` find the same handlers, and the same inner iterator of a `yield from`. Called, and asked for
one item, which is None, it gives a generator in the state of the other; nothing that the other did so far is done again.

What such a generator holds while it waits there can be read (`held_waiting`), and it can be ended without a cleanup (`finish`), by who
has done what it would do.
"""

from __future__ import annotations

import gc
import inspect
from collections.abc import Collection, Sequence
from dataclasses import replace
from types import CodeType, GeneratorType
from typing import Any

from dynascope.dataclass import dataclass
from dynascope.frame.builder import CodeBuilder
from dynascope.frame.instructions import Instruction, decode
from dynascope.frame.resume import Parameter, Resume, ResumeOrigin, ResumeWriter, StackParameter, at_root, resume_origin
from dynascope.frame.shape import CodeShape
from dynascope.frame.stack_shape import SlotKind, StackSlot, stack_shapes
from dynascope.frame.versions import KNOWS_FRAMES


def make_suspended_code(
    code: CodeType,
    instructions: Sequence[Instruction],
    at: Instruction,
    null_positions: Collection[int],
    bound_locals: Collection[str],
    cells: Collection[str],
) -> Resume | None:
    """Takes what `make_resume_code` takes; `at` is the `yield` at which the generator waits, and the stack lies below what it
    gives. None inside `except`, where the generator keeps the exception being handled, and where frames are not known."""
    kinds = {slot.kind for slot in stack_shapes(instructions)[at]}
    if not KNOWS_FRAMES or not code.co_flags & inspect.CO_GENERATOR or SlotKind.PREVIOUS_EXCEPTION in kinds:
        return None
    root, instructions, index = at_root(code, instructions, instructions.index(at))
    key = (id(root), index, frozenset(null_positions), frozenset(bound_locals), frozenset(cells))
    if key not in _made:
        _made[key] = SuspendedWriter(root, instructions, index, frozenset(null_positions), bound_locals, cells).write()
    return _made[key]


_made: dict[tuple, Resume] = {}
"""What was made once is made alike: who meets such a generator knows it by its code. Each holds the code that it is of."""


@dataclass(frozen=True, slots=True, eq=False)
class SuspendedOrigin(ResumeOrigin):
    """`names` are the slots that hold something while it waits, in the order of its frame, with `depth` values on the stack above."""

    names: tuple[str, ...] = ()
    depth: int = 0


class Finish:
    """Sent to a generator that is to end as it is."""


FINISH = Finish()
VALUES = (SlotKind.VALUE, SlotKind.ITERATOR, SlotKind.EXIT)
WAITS_BEHIND = (0, 2)
"""How many bytes behind its `yield` a generator says that it is: from CPython 3.13 on it names the RESUME that it goes on with."""
PLAIN_YIELD = 1
"""What the RESUME behind a `yield` that is no `yield from` and no `await` says."""


def waiting_origin(generator: GeneratorType) -> SuspendedOrigin | None:
    """Where a generator waits, if it is one that was made here and nobody has asked for more than its first item."""
    origin, frame = resume_origin(generator.gi_code), generator.gi_frame
    if not isinstance(origin, SuspendedOrigin) or frame is None or generator.gi_running:
        return None
    if origin not in _yields:
        _yields[origin] = next(each.offset for each in decode(generator.gi_code) if each.operation == "YIELD_VALUE")
    return origin if frame.f_lasti - _yields[origin] in WAITS_BEHIND else None


_yields: dict[SuspendedOrigin, int] = {}
"""Where the first `yield` of each lies."""


def held_waiting(generator: GeneratorType) -> tuple[Any, ...]:
    """What lies in its slots, cells included, and on its stack. Raises where that cannot be seen."""
    origin = waiting_origin(generator)
    count = 0 if origin is None else len(origin.names) + origin.depth
    found = tuple(gc.get_referents(generator)[-count:]) if count else ()
    if origin is None or len(found) != count:
        raise ValueError("the generator waits elsewhere")
    named = generator.gi_frame.f_locals
    cells = (*generator.gi_code.co_freevars, *origin.cell_arguments)
    if any(value is not named[name] for name, value in zip(origin.names, found, strict=False) if name not in cells):
        raise ValueError("the generator holds something else")
    return found


def finish(generator: GeneratorType) -> None:
    try:
        generator.send(FINISH)
    except StopIteration:
        return


class SuspendedWriter(ResumeWriter):
    def parameters(self) -> tuple[Parameter, ...]:
        return tuple(each for each in super().parameters() if not self.is_yielded(each))

    def is_yielded(self, parameter: Parameter) -> bool:
        return parameter == StackParameter(len(self.stack) - 1)

    def resume_shape(self, parameters: Sequence[Parameter], copies: Sequence[Instruction]) -> CodeShape:
        shape = super().resume_shape(parameters, copies)
        return replace(shape, flags=shape.flags | inspect.CO_GENERATOR)

    def write_start(self, builder: CodeBuilder) -> None:
        super().write_start(builder)
        builder.emit("RETURN_GENERATOR")
        builder.pop()

    def write_slot(self, builder: CodeBuilder, position: int, slot: StackSlot) -> None:
        if self.is_yielded(StackParameter(position)):
            builder.load_constant(None)
        else:
            super().write_slot(builder, position, slot)

    def origin(self, entered: int, prologue_length: int) -> ResumeOrigin:
        plain = super().origin(entered, prologue_length)
        if not self.can_finish():
            return plain
        names = [self.name_of(each) for each in self.parameters() if not isinstance(each, StackParameter)]
        held = (*names, *self.free_variables)
        return SuspendedOrigin(
            plain.root, plain.at, entered, prologue_length, plain.kept, plain.cell_arguments, held, len(self.stack) - 1
        )

    def can_finish(self) -> bool:
        """Not in the middle of a call or a `yield from`, nor where something else than values lies on the stack."""
        behind = self.behind()
        is_plain = behind.operation == "RESUME" and (behind.argument or 0) & 3 == PLAIN_YIELD
        return is_plain and not self.null_positions and all(slot.kind in VALUES for slot in self.stack)

    def behind(self) -> Instruction:
        """What follows the `yield` that it waits at."""
        return self.copies[self.kept.index(self.index) + 1]

    def write_entry(self, builder: CodeBuilder, target: Instruction, first: Instruction) -> None:
        """A `yield` like the one it waits at, behind which it ends at once when that is sent."""
        if not self.can_finish():
            super().write_entry(builder, target, first)
            return
        behind = self.behind()
        leaves = builder.label()
        builder.extend([target.copy(), behind.copy()])
        builder.copy(1)
        builder.load_constant(FINISH)
        builder.emit("IS_OP", value="is")
        builder.emit("POP_JUMP_IF_TRUE").target = leaves
        builder.jump(behind)
        builder.place(leaves)
        for _ in range(len(self.stack)):
            builder.pop()
        builder.load_constant(None)
        builder.return_value()
