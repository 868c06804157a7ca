"""Which locals are still needed at an instruction: by following every path backward, handlers included.

    x = f(a)        live before: a, b
    return x + b    live before: x, b

A slot is live when some path reads it before it is stored. Cells count like locals (their slot is read by LOAD_DEREF
and LOAD_CLOSURE). Two reads do not show in the instructions: `super()` without arguments takes the first parameter
and `__class__` from the frame, and `locals()`, `eval` and their like take everything: where the code names one of them, any call may be
of it.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

from dynascope.frame.instructions import Instruction
from dynascope.frame.shape import CodeShape
from dynascope.frame.versions import ENDS

READS = frozenset(
    {"LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_FAST_AND_CLEAR", "DELETE_FAST", "LOAD_CLOSURE", "MAKE_CELL"}
    | {"LOAD_DEREF", "STORE_DEREF", "DELETE_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF"}
)
OVERWRITES = frozenset({"STORE_FAST"})
READS_WHOLE_FRAME = frozenset({"locals", "vars", "dir", "eval", "exec", "_getframe", "currentframe"})
NAME_LOADS = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "LOAD_ATTR"})
CALLS = frozenset({"CALL", "CALL_FUNCTION_EX", "LOAD_SUPER_ATTR"})


def live_locals(instructions: Sequence[Instruction], at: Instruction, shape: CodeShape) -> frozenset[str]:
    """Names of the slots whose value at `at` may still be read. One question; `Liveness` answers many."""
    return Liveness(instructions, shape).before(at)


def may_read_whole_frame(instructions: Sequence[Instruction], at: Instruction) -> bool:
    """Whether who lists the frame's names may be called from `at` on. `locals()` is the builtin where it stands; what the program keeps,
    or calls with something, may be called anywhere. Methods of these names (`model.eval()`) are others."""
    loads = [
        (place, each)
        for place, each in enumerate(instructions)
        if each.operation in NAME_LOADS | {"LOAD_METHOD"} and each.value in READS_WHOLE_FRAME
    ]
    names = {each.value for each in instructions if each.operation in NAME_LOADS}
    ahead = None
    for place, load in loads:
        if load.operation not in ("LOAD_GLOBAL", "LOAD_NAME"):
            if load.value in ("_getframe", "currentframe") or names & {"builtins", "__builtins__"}:
                return True
            continue
        following = [each for each in instructions[place + 1 : place + 4] if each.operation != "PUSH_NULL"]
        if following[0].operation != "CALL" or following[0].argument != 0:
            return True
        ahead = set(reachable(instructions, instructions.index(at))) if ahead is None else ahead
        if place in ahead:
            return True
    return False


def reachable(instructions: Sequence[Instruction], start: int) -> list[int]:
    """Indexes of what can still run, in the original's order."""
    index_of = {instruction: index for index, instruction in enumerate(instructions)}
    reached: set[int] = set()
    pending = [start]
    while pending:
        index = pending.pop()
        while index not in reached:
            reached.add(index)
            instruction = instructions[index]
            if instruction.target is not None:
                pending.append(index_of[instruction.target])
            if instruction.handler is not None:
                pending.append(index_of[instruction.handler.target])
            if instruction.operation in ENDS:
                break
            index += 1
    return sorted(reached)


class Liveness:
    """The live slots before every instruction of one code object."""

    def __init__(self, instructions: Sequence[Instruction], shape: CodeShape) -> None:
        self.names = shape.slots()
        self._bit = {name: 1 << index for index, name in enumerate(self.names)}
        self._shape = shape
        self._everything = (1 << len(self.names)) - 1
        self._read_by_calls = self._read_by_names({i.value for i in instructions if i.operation in NAME_LOADS})
        self._live: dict[Instruction, int] = dict.fromkeys(instructions, 0)
        self._solve(instructions)

    def before(self, at: Instruction) -> frozenset[str]:
        live = self._live[at]
        return frozenset(name for index, name in enumerate(self.names) if live >> index & 1)

    def _solve(self, instructions: Sequence[Instruction]) -> None:
        """Backward over the whole code until nothing changes; jumps backward cost one more round each."""
        live = self._live
        steps = [(i, self._read_by(i), ~self._overwritten_by(i)) for i in reversed(instructions)]
        changed = True
        while changed:
            changed = False
            following = 0
            for instruction, read, kept in steps:
                after = 0 if instruction.operation in ENDS else following
                if instruction.target is not None:
                    after |= live[instruction.target]
                before = after & kept | read
                if instruction.handler is not None:
                    before |= live[instruction.handler.target]
                if before != live[instruction]:
                    live[instruction] = before
                    changed = True
                following = before

    def _read_by(self, instruction: Instruction) -> int:
        if instruction.operation in READS:
            return self._bit.get(instruction.value, 0)
        if instruction.operation in NAME_LOADS:
            return self._read_by_names({instruction.value})
        return self._read_by_calls if instruction.operation in CALLS else 0

    def _read_by_names(self, names: Set[str]) -> int:
        """What functions of these names read from the frame that calls them."""
        if names & READS_WHOLE_FRAME:
            return self._everything
        if "super" in names and self._shape.locals:
            return self._bit[self._shape.locals[0]] | self._bit.get("__class__", 0)
        return 0

    def _overwritten_by(self, instruction: Instruction) -> int:
        return self._bit.get(instruction.value, 0) if instruction.operation in OVERWRITES else 0
