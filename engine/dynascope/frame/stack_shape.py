"""What kind of thing lies in each stack slot, at every instruction: by following every path once.

    with a: for x in y: f(x)      before CALL on 3.12:  EXIT · ITERATOR · NULL · VALUE · VALUE

Depths are exact. Kinds tell what a resumed frame must restore in a special way: the NULLs of calls, the `__exit__` of a
`with`, the exception being handled, the offset that a re-raise wants.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Sequence

from dynascope.dataclass import dataclass
from dynascope.frame.instructions import Handler, Instruction
from dynascope.frame.stack_depth import effect, jump_effect
from dynascope.frame.versions import ENDS, RUNNING


class SlotKind(enum.Enum):
    VALUE = "value"
    NULL = "null"
    MAYBE_NULL = "maybe null"  # below a method's object, or a local put aside by an inlined comprehension
    ITERATOR = "iterator"
    EXIT = "exit"  # the __exit__ of an active `with`: bound, or below its object (3.14)
    PREVIOUS_EXCEPTION = "previous exception"  # of an active handler; POP_EXCEPT restores it
    EXCEPTION = "exception"
    OFFSET = "offset"  # where an exception came from (`push_lasti`)


@dataclass(frozen=True, slots=True)
class StackSlot:
    """`pushed_by` is the instruction that made it, where that says more than the kind."""

    kind: SlotKind
    pushed_by: Instruction | None = None


Stack = tuple[StackSlot, ...]
VALUE, NULL, OFFSET = StackSlot(SlotKind.VALUE), StackSlot(SlotKind.NULL), StackSlot(SlotKind.OFFSET)
EXCEPTION = StackSlot(SlotKind.EXCEPTION)
EXITS = frozenset({"__exit__", "__aexit__"})
# First in the range of the clean-up whose stack it only now makes.
NEVER_RAISES = frozenset({"PUSH_EXC_INFO"})


def stack_shapes(instructions: Sequence[Instruction]) -> dict[Instruction, Stack]:
    """The stack before every instruction that can be reached from the first, bottom first."""
    following = dict(zip(instructions, instructions[1:], strict=False))
    shapes: dict[Instruction, Stack] = {}
    pending: list[tuple[Instruction, Stack]] = [(instructions[0], ())]
    while pending:
        instruction, stack = pending.pop()
        known = shapes.get(instruction)
        if known is not None:
            stack = _join(known, stack)
            if stack == known:
                continue
        shapes[instruction] = stack
        pending.extend(_successors(instruction, stack, following.get(instruction)))
    return shapes


def _successors(
    instruction: Instruction, stack: Stack, following: Instruction | None
) -> Iterator[tuple[Instruction, Stack]]:
    handler = instruction.handler
    # 3.15 leaves the end of a generator, where nothing raises and less is on the stack, in its handler's range.
    if handler is not None and instruction.operation not in NEVER_RAISES and len(stack) >= handler.depth:
        yield handler.target, _at_handler(stack, handler)
    if instruction.target is not None:
        yield instruction.target, stack_after(instruction, stack, jumps=True)
    if following is not None and instruction.operation not in ENDS:
        yield following, stack_after(instruction, stack, jumps=False)


def stack_after(instruction: Instruction, stack: Stack, *, jumps: bool) -> Stack:
    """What one instruction makes of a stack, at its jump's target or on the way straight on."""
    if jumps:
        return _resized(stack, jump_effect(instruction))
    return RULES.get(instruction.operation, _other)(instruction, stack)


def _at_handler(stack: Stack, handler: Handler) -> Stack:
    return (*stack[: handler.depth], *((OFFSET,) if handler.push_lasti else ()), EXCEPTION)


def _join(one: Stack, other: Stack) -> Stack:
    """The first seen wins where both say the same kind; kinds that differ are plain values, or perhaps NULL."""
    if one == other:
        return one
    return tuple(_join_slot(a, b) for a, b in zip(one, other, strict=True))


def _join_slot(one: StackSlot, other: StackSlot) -> StackSlot:
    if one.kind is other.kind:
        return one
    nulls = {SlotKind.NULL, SlotKind.MAYBE_NULL}
    return StackSlot(SlotKind.MAYBE_NULL) if {one.kind, other.kind} & nulls else VALUE


def _resized(stack: Stack, change: int) -> Stack:
    return stack + (VALUE,) * change if change >= 0 else stack[:change]


def _other(instruction: Instruction, stack: Stack) -> Stack:
    """Operands are values and results are values, so only the number counts."""
    return _resized(stack, effect(instruction))


def _call(taken: int) -> Callable[[Instruction, Stack], Stack]:
    """Takes arguments, callable and NULL: `taken` more than its count."""
    return lambda instruction, stack: (*stack[: -taken - (instruction.argument or 0)], VALUE)


def _unpacking_call(instruction: Instruction, stack: Stack) -> Stack:
    return (*stack[: -3 - (instruction.argument & 1)], VALUE)


def _attribute(taken: int) -> Callable[[Instruction, Stack], Stack]:
    def load(instruction: Instruction, stack: Stack) -> Stack:
        if not instruction.is_method:
            return (*stack[:-taken], VALUE)
        pair = (VALUE, StackSlot(SlotKind.MAYBE_NULL, instruction))
        return stack[:-taken] + (pair if RUNNING.null_above_callable else pair[::-1])

    return load


def _global(instruction: Instruction, stack: Stack) -> Stack:
    if not instruction.pushes_null:
        return (*stack, VALUE)
    return stack + ((VALUE, NULL) if RUNNING.null_above_callable else (NULL, VALUE))


def _swap(instruction: Instruction, stack: Stack) -> Stack:
    depth = instruction.argument
    return (*stack[:-depth], stack[-1], *stack[len(stack) - depth + 1 : -1], stack[-depth])


def _pop_except(_: Instruction, stack: Stack) -> Stack:
    """The handler is over. On the way out of it by an exception, a copy was popped: what was copied is spent."""
    popped = stack[-1]
    return tuple(VALUE if slot == popped else slot for slot in stack[:-1])


def _special(instruction: Instruction, stack: Stack) -> Stack:
    kind = SlotKind.EXIT if instruction.value in EXITS else SlotKind.VALUE
    return (*stack[:-1], StackSlot(kind, instruction), StackSlot(SlotKind.MAYBE_NULL, instruction))


def _top_becomes(*kinds: SlotKind) -> Callable[[Instruction, Stack], Stack]:
    return lambda instruction, stack: (*stack[:-1], *(StackSlot(kind, instruction) for kind in kinds))


ITERATORS = (SlotKind.ITERATOR, *[SlotKind.MAYBE_NULL] * (RUNNING.iterator_slots - 1))
RULES: dict[str, Callable[[Instruction, Stack], Stack]] = {
    "PUSH_NULL": lambda _, stack: (*stack, NULL),
    "LOAD_GLOBAL": _global,
    "LOAD_ATTR": _attribute(1),
    "LOAD_SUPER_ATTR": _attribute(3),
    "LOAD_FAST_AND_CLEAR": lambda instruction, stack: (*stack, StackSlot(SlotKind.MAYBE_NULL, instruction)),
    "COPY": lambda instruction, stack: (*stack, stack[-instruction.argument]),
    "SWAP": _swap,
    "CALL": _call(2),
    "CALL_KW": _call(3),
    "CALL_FUNCTION_EX": _unpacking_call,
    "GET_ITER": _top_becomes(*ITERATORS),
    "GET_AITER": _top_becomes(SlotKind.ITERATOR),
    "GET_YIELD_FROM_ITER": _top_becomes(SlotKind.ITERATOR),
    "BEFORE_WITH": _top_becomes(SlotKind.EXIT, SlotKind.VALUE),
    "BEFORE_ASYNC_WITH": _top_becomes(SlotKind.EXIT, SlotKind.VALUE),
    "LOAD_SPECIAL": _special,
    "PUSH_EXC_INFO": _top_becomes(SlotKind.PREVIOUS_EXCEPTION, SlotKind.EXCEPTION),
    "POP_EXCEPT": _pop_except,
}
