"""A generator that waits where another one waits.

    def g(n):                              def g(n):
        for k in range(n):                     push the iterator; go to the `yield` of g with the stack as it was there
            yield k * 2            ->

The code is a generator function's: it takes what the waiting frame holds and begins with that frame's own `yield`, so that
`next`, `send`, `throw` and `close` find the same handlers, and the same inner iterator of a `yield from`. Called, and asked for
one item, which is None, it gives a generator in the state of the other; nothing that the other did so far is done again.
"""

from __future__ import annotations

import inspect
from collections.abc import Collection, Sequence
from dataclasses import replace
from types import CodeType

from dynascope.frame.builder import CodeBuilder
from dynascope.frame.instructions import Instruction
from dynascope.frame.resume import Parameter, Resume, ResumeWriter, StackParameter, at_root
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
    return SuspendedWriter(root, instructions, index, frozenset(null_positions), bound_locals, cells).write()


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
