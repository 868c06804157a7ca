"""How deep the evaluation stack gets: by following every path, handlers included.

`depths(instructions)` maps each reachable instruction to the depth before it; `stack_size` is the size a frame needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from opcode import stack_effect as _stack_effect_of_opcode

from dynascope.frame.instructions import Handler, Instruction
from dynascope.frame.versions import ENDS, OPCODE, RUNNING, TAKES_ARGUMENT


class InconsistentStack(Exception):
    """Two paths reach an instruction with different depths, or the stack would go below its bottom."""


def depths(instructions: Sequence[Instruction]) -> dict[Instruction, int]:
    """The stack depth before each instruction that can be reached from the first."""
    return _follow(instructions)[0]


def stack_size(instructions: Sequence[Instruction]) -> int:
    return max(1, _follow(instructions)[1])


def handler_depth(handler: Handler) -> int:
    """The depth at the handler's target: what is kept, the offset if asked for, the exception."""
    return handler.depth + handler.push_lasti + 1


def effect(instruction: Instruction) -> int:
    """Change of depth when control goes to the next instruction."""
    rule = EFFECTS.get(instruction.operation)
    return rule(instruction) if rule else _plain_effect(instruction.operation, instruction.argument)


def jump_effect(instruction: Instruction) -> int:
    """Change of depth when control goes to the target."""
    return _jump_effect(instruction.operation)


def _function_attributes(instruction: Instruction) -> int:
    return -len(instruction.value or ())


# Where the change depends on a resolved operand, or where `opcode.stack_effect` does not describe our instruction.
EFFECTS = {
    "LABEL": lambda _: 0,
    "CALL": lambda instruction: -1 - instruction.argument,
    "CALL_FUNCTION_EX": lambda instruction: -2 - (instruction.argument & 1),
    "BINARY_SUBSCR": lambda _: -1,
    "LOAD_ATTR": lambda instruction: instruction.bits & 1,
    "LOAD_GLOBAL": lambda instruction: 1 + (instruction.bits & 1),
    "LOAD_SUPER_ATTR": lambda instruction: -2 + (instruction.bits & 1),
    "FORMAT_VALUE": lambda instruction: -1 if instruction.value[1] else 0,
    "MAKE_FUNCTION": _function_attributes,
    "RETURN_GENERATOR": lambda _: 1,  # what the first send() brings
}


@cache
def _plain_effect(operation: str, argument: int | None) -> int:
    opcode = _number(operation)
    if argument is None and TAKES_ARGUMENT[opcode]:
        argument = 0  # the operand is a name, a constant or the like: any number has the same effect
    return _stack_effect_of_opcode(opcode, argument, jump=False)


@cache
def _jump_effect(operation: str) -> int:
    return _stack_effect_of_opcode(_number(operation), 0, jump=True)


def _number(operation: str) -> int:
    return OPCODE.get(operation) or OPCODE[operation.replace("POP_JUMP_", "POP_JUMP_FORWARD_")]


def _follow(instructions: Sequence[Instruction]) -> tuple[dict[Instruction, int], int]:
    """The depth before every reachable instruction, and the deepest point."""
    depth_at: dict[Instruction, int] = {}
    index_of = {instruction: index for index, instruction in enumerate(instructions)}
    seen_handlers: set[Handler] = set()
    pending = [(instructions[0], 0)]
    deepest = 0
    while pending:
        start, depth = pending.pop()
        for index in range(index_of[start], len(instructions)):
            instruction = instructions[index]
            if instruction in depth_at:
                _require_same(instruction, depth_at[instruction], depth)
                break
            depth_at[instruction] = depth
            handler = instruction.handler
            if handler is not None and handler not in seen_handlers:
                seen_handlers.add(handler)
                pending.append((handler.target, handler_depth(handler)))
            if instruction.target is not None:
                pending.append((instruction.target, depth + jump_effect(instruction)))
            transient = TRANSIENT if instruction.keyword_names else 0
            depth += effect(instruction)
            deepest = max(deepest, depth, depth_at[instruction] + transient)
            if instruction.operation in ENDS:
                break
    return depth_at, max(deepest, *depth_at.values())


def _require_same(instruction: Instruction, known: int, depth: int) -> None:
    if known != depth:
        raise InconsistentStack(f"{instruction!r} is reached with stack depths {known} and {depth}")


# A call with keywords pushes the tuple of their names, on versions that keep it on the stack.
TRANSIENT = 1 if RUNNING.keyword_names_on_stack else 0
