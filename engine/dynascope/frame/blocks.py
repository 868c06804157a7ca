"""Which `with`, `try` and `except` blocks an instruction is in, outermost first.

Since 3.11 blocks are not on any stack at run time: they are the handlers of the exception table. The chain of handlers
around an instruction says what is active, and the static stack says what lies below each.

    with a:                     Block(WITH, handler, 0)       stack slot 0 holds a's __exit__
        try: f()                Block(TRY, handler, 1)
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping

from dynascope.dataclass import dataclass
from dynascope.frame.instructions import Handler, Instruction
from dynascope.frame.stack_shape import SlotKind, Stack
from dynascope.frame.versions import RUNNING


class BlockKind(enum.Enum):
    WITH = "with"
    TRY = "try"  # the body of try/except or try/finally
    EXCEPT = "except"  # an except or finally clause that handles an exception
    CLEANUP = "cleanup"  # made by Python's compiler: unbinding `except ... as name`, restoring a comprehension's names


@dataclass(frozen=True, slots=True)
class Block:
    """`stack_position` is the slot that the block owns: the `__exit__` of WITH (the lower of its pair on 3.14), the
    previous exception of EXCEPT.

    For the others it is the depth that an exception cuts the stack to.
    """

    kind: BlockKind
    handler: Handler
    stack_position: int


def active_blocks(shapes: Mapping[Instruction, Stack], at: Instruction) -> tuple[Block, ...]:
    """The blocks around `at`, outermost first. `shapes` is `stack_shapes(instructions)`."""
    blocks = [_block(handler, shapes[at]) for handler in enclosing_handlers(at)]
    return tuple(reversed(blocks))


def enclosing_handlers(at: Instruction) -> Iterator[Handler]:
    """Innermost first.

    The handler's own code lies under a clean-up of that code, which keeps more of the stack than the handler itself;
    that one is not around `at`.
    """
    handler = at.handler
    while handler is not None:
        yield handler
        outer = handler.target.handler
        while outer is not None and outer.depth > handler.depth:
            outer = outer.target.handler
        handler = outer


def _block(handler: Handler, stack: Stack) -> Block:
    top = handler.depth - 1
    owned = stack[top].kind if top >= 0 else SlotKind.VALUE
    if handler.target.operation == "COPY" and owned is SlotKind.PREVIOUS_EXCEPTION:
        return Block(BlockKind.EXCEPT, handler, top)
    if handler.target.operation != "PUSH_EXC_INFO":
        return Block(BlockKind.CLEANUP, handler, handler.depth)
    leaving = top - 1 if RUNNING.exit_is_pair else top
    if leaving >= 0 and stack[leaving].kind is SlotKind.EXIT and handler.push_lasti:
        return Block(BlockKind.WITH, handler, leaving)
    return Block(BlockKind.TRY, handler, handler.depth)
