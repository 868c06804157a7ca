"""Code objects as lists of instructions that read the same on every supported version.

    x = f(a, key=1)     LOAD_GLOBAL f (pushes_null) · LOAD_FAST a · LOAD_CONST 1 · CALL 2 keyword_names=('key',)
                        · STORE_FAST x

`decode(code)` resolves every operand and takes out what only matters to one version:

- EXTENDED_ARG, CACHE, PRECALL, NOT_TAKEN and KW_NAMES are gone. A call with keywords is `CALL` with `keyword_names` on every
  version (3.13's `LOAD_CONST names; CALL_KW` too). `argument` counts all arguments, keywords included.
- Fused operations are split (`LOAD_FAST_LOAD_FAST`, `RETURN_CONST`, ...). Both halves have the same offset.
- 3.11's LOAD_METHOD is `LOAD_ATTR` with `is_method`, its POP_JUMP_FORWARD_IF_TRUE and POP_JUMP_BACKWARD_IF_TRUE are
  `POP_JUMP_IF_TRUE`; jumps have a `target`. 3.14's LOAD_FAST_BORROW is LOAD_FAST, its LOAD_SMALL_INT and
  LOAD_COMMON_CONSTANT are LOAD_CONST, its `BINARY_OP []` is BINARY_SUBSCR; the lowest bit of CALL_FUNCTION_EX's argument
  says that there is a slot for keywords (which 3.14 always has, with NULL for none).

What an interpreter of these must know by version is in `versions.RUNNING`: where a call's NULL lies
(`null_above_callable`), and that an exhausted FOR_ITER leaves its iterator and one more value for the END_FOR (and
POP_TOP) at its target, except on 3.11, where it pops the iterator itself (`loop_exit_length`).

A slot (local, cell or free variable) holds a value, or a cell once MAKE_CELL or COPY_FREE_VARS made it one. LOAD_FAST,
LOAD_CLOSURE, STORE_FAST and LOAD_FAST_AND_CLEAR move whatever is in the slot, a cell included (3.13 loads closures by
LOAD_FAST; inlined comprehensions save and restore cells); LOAD_DEREF and STORE_DEREF look inside.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from types import CodeType
from typing import Any, NamedTuple

from dynascope.dataclass import dataclass
from dynascope.frame.exception_table import parse_exception_table
from dynascope.frame.operands import (
    COERCES_TO_BOOL,
    HAS_EXPLICIT_ARGUMENTS,
    IS_METHOD,
    PUSHES_NULL,
    RULES,
    OperandReader,
)
from dynascope.frame.versions import (
    BINARY_OPERATORS,
    CACHE_ENTRIES,
    COMMON_CONSTANTS,
    FUSED,
    JUMPS,
    NAME,
    OPCODE,
    RUNNING,
    TAKES_ARGUMENT,
)

EXTENDED_ARG = OPCODE["EXTENDED_ARG"]
CACHE = OPCODE["CACHE"]


class Position(NamedTuple):
    """Where in the source an instruction comes from, as `co_positions()` says: lines from 1, byte columns from 0."""

    line: int
    end_line: int | None = None
    column: int | None = None
    end_column: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Handler:
    """What happens to an exception here: the stack is cut to `depth`, the exception pushed, control goes to `target`.

    With `push_lasti` the offset of the failing instruction is pushed below the exception (RERAISE wants it).
    """

    target: Instruction
    depth: int
    push_lasti: bool


@dataclass(slots=True, eq=False)
class Instruction:
    """One operation with its operand resolved. Compared and hashed by identity, so that jumps can point at it.

    `argument` is the number of operations whose operand is a count or a depth (CALL, BUILD_LIST, COPY, RERAISE, ...);
    `value` is what the number of all others stands for. `offset` is where the operation lies in the code it was
    decoded from.
    """

    operation: str
    argument: int | None = None
    value: Any = None
    target: Instruction | None = None
    position: Position | None = None
    handler: Handler | None = None
    offset: int | None = None
    keyword_names: tuple[str, ...] = ()
    bits: int = 0

    @property
    def pushes_null(self) -> bool:
        """LOAD_GLOBAL that makes room for a call."""
        return self.operation == "LOAD_GLOBAL" and bool(self.bits & PUSHES_NULL)

    @property
    def is_method(self) -> bool:
        """LOAD_ATTR or LOAD_SUPER_ATTR that pushes a method and its object, or the attribute and a NULL."""
        return self.operation in ("LOAD_ATTR", "LOAD_SUPER_ATTR") and bool(self.bits & IS_METHOD)

    @property
    def has_explicit_arguments(self) -> bool:
        """LOAD_SUPER_ATTR of `super(type, object).name`; without, of `super().name`."""
        return self.operation == "LOAD_SUPER_ATTR" and bool(self.bits & HAS_EXPLICIT_ARGUMENTS)

    @property
    def coerces_to_bool(self) -> bool:
        """COMPARE_OP whose result becomes exactly True or False."""
        return self.operation == "COMPARE_OP" and bool(self.bits & COERCES_TO_BOOL)

    @property
    def line(self) -> int | None:
        return self.position.line if self.position else None

    def copy(self) -> Instruction:
        """The same operation again, with the same target and handler."""
        return Instruction(
            self.operation,
            self.argument,
            self.value,
            self.target,
            self.position,
            self.handler,
            self.offset,
            self.keyword_names,
            self.bits,
        )

    def __repr__(self) -> str:
        has_value = self.value is not None or self.operation == "LOAD_CONST"
        operand = f" {self.value!r}" if has_value else "" if self.argument is None else f" {self.argument}"
        where = "" if self.offset is None else f" at {self.offset}"
        return f"<{self.operation}{operand}{where}>"


class RawOperation(NamedTuple):
    """An operation as it lies in `co_code`. `start` is the offset of its first EXTENDED_ARG, if it has one."""

    start: int
    offset: int
    opcode: int
    argument: int


def decode(code: CodeType) -> list[Instruction]:
    """The instructions of a code object, in order, each with its operand, position, jump target and handler."""
    decoding = _Decoding(code)
    for raw in raw_operations(code.co_code):
        decoding.add(raw)
    decoding.link_jumps()
    decoding.attach_handlers(code.co_exceptiontable)
    return decoding.instructions


def raw_operations(bytecode: bytes) -> Iterator[RawOperation]:
    """Operations without their EXTENDED_ARG and CACHE units."""
    start, extension, offset, end = 0, 0, 0, len(bytecode)
    while offset < end:
        opcode = bytecode[offset]
        argument = extension | bytecode[offset + 1]
        if opcode == EXTENDED_ARG:
            extension = argument << 8
            offset += 2
            continue
        yield RawOperation(start, offset, opcode, argument)
        offset += 2 + 2 * CACHE_ENTRIES[opcode]
        start, extension = offset, 0


# How 3.11 spells a jump by direction, and an operation that later became a variant of another.
PLAIN_NAMES = {
    f"POP_JUMP_{direction}_IF_{condition}": f"POP_JUMP_IF_{condition}"
    for direction in ("FORWARD", "BACKWARD")
    for condition in ("TRUE", "FALSE", "NONE", "NOT_NONE")
}
PLAIN_NAMES["LOAD_METHOD"] = "LOAD_ATTR"
PLAIN_NAMES["LOAD_FAST_BORROW"] = "LOAD_FAST"
PLAIN_NAME = [PLAIN_NAMES.get(name, name) for name in NAME]
IS_BACKWARD = ["BACKWARD" in name for name in NAME]


@dataclass(slots=True)
class _Decoding:
    """The state of one `decode`."""

    code: CodeType
    instructions: list[Instruction] = field(default_factory=list)
    tables: OperandReader = field(init=False)
    positions: list[tuple] = field(init=False)
    at: dict[int, Instruction] = field(default_factory=dict)
    jumps: list[tuple[Instruction, int]] = field(default_factory=list)
    # Starts of operations that are left out; a jump to one goes to the next instruction.
    skipped: list[int] = field(default_factory=list)
    keyword_names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.tables = OperandReader(self.code)
        self.positions = list(self.code.co_positions())

    def add(self, raw: RawOperation) -> None:
        special = SPECIAL.get(raw.opcode)
        if special is not None:
            special(self, raw)
        else:
            self.add_plain(raw)

    def add_plain(self, raw: RawOperation) -> None:
        operation = PLAIN_NAME[raw.opcode]
        instruction = self.append(raw, operation)
        rule = RULE_OF[raw.opcode]
        if rule is not None:
            instruction.value, instruction.bits = rule.read(self.tables, raw.argument)
        elif operation in JUMPS:
            self.jumps.append((instruction, jump_offset(raw)))
        elif TAKES_ARGUMENT[raw.opcode]:
            instruction.argument = raw.argument

    def append(self, raw: RawOperation, operation: str, value: object = None) -> Instruction:
        position = self.position_at(raw.offset)
        instruction = Instruction(operation, None, value, None, position, None, raw.offset)
        self.instructions.append(instruction)
        self.at.setdefault(raw.start, instruction)
        if self.skipped:
            for start in self.skipped:
                self.at[start] = instruction
            self.skipped.clear()
        return instruction

    def position_at(self, offset: int) -> Position | None:
        position = self.positions[offset >> 1]
        return None if position[0] is None else Position._make(position)

    def skip(self, raw: RawOperation) -> None:
        self.skipped.append(raw.start)

    def hold_keyword_names(self, raw: RawOperation) -> None:
        self.keyword_names = self.tables.constants[raw.argument]
        self.skip(raw)

    def add_call(self, raw: RawOperation) -> None:
        instruction = self.append(raw, "CALL")
        instruction.argument, instruction.keyword_names = raw.argument, self.keyword_names
        self.keyword_names = ()

    def add_keyword_call(self, raw: RawOperation) -> None:
        """`LOAD_CONST names; CALL_KW n` becomes one CALL. The load itself is turned into it: jumps may lead to it."""
        last = self.instructions[-1]
        if last.operation != "LOAD_CONST" or type(last.value) is not tuple:
            self.add_plain(raw)
            return
        last.operation, last.argument, last.keyword_names, last.value = "CALL", raw.argument, last.value, None
        last.offset, last.position = raw.offset, self.position_at(raw.offset)

    def add_method_load(self, raw: RawOperation) -> None:
        self.append(raw, "LOAD_ATTR", self.tables.names[raw.argument]).bits = IS_METHOD

    def add_constant_return(self, raw: RawOperation) -> None:
        self.append(raw, "LOAD_CONST", self.tables.constants[raw.argument])
        self.append(raw, "RETURN_VALUE")

    def add_small_integer(self, raw: RawOperation) -> None:
        self.append(raw, "LOAD_CONST", raw.argument)

    def add_common_constant(self, raw: RawOperation) -> None:
        self.append(raw, "LOAD_CONST", COMMON_CONSTANTS[raw.argument])

    def add_operator(self, raw: RawOperation) -> None:
        operator = BINARY_OPERATORS[raw.argument]
        if operator == "[]":
            self.append(raw, "BINARY_SUBSCR")
        else:
            self.append(raw, "BINARY_OP", operator)

    def add_unpacking_call(self, raw: RawOperation) -> None:
        self.append(raw, "CALL_FUNCTION_EX").argument = 1 if RUNNING.keywords_or_null else raw.argument

    def add_fused(self, raw: RawOperation) -> None:
        first, second = FUSED[NAME[raw.opcode]]
        self.append(raw, first, self.tables.slots[raw.argument >> 4])
        self.append(raw, second, self.tables.slots[raw.argument & 15])

    def link_jumps(self) -> None:
        for instruction, offset in self.jumps:
            instruction.target = self.at[offset]

    def attach_handlers(self, table: bytes) -> None:
        entries = parse_exception_table(table)
        if not entries:
            return
        remaining = iter(entries)
        entry = next(remaining)
        handler = Handler(self.at[entry.target], entry.depth, entry.push_lasti)
        for instruction in self.instructions:
            while instruction.offset >= entry.end:
                entry = next(remaining, None)
                if entry is None:
                    return
                handler = Handler(self.at[entry.target], entry.depth, entry.push_lasti)
            if instruction.offset >= entry.start:
                instruction.handler = handler


def jump_offset(raw: RawOperation) -> int:
    """Where a jump leads: its argument counts code units from the end of the operation and its cache."""
    end = raw.offset + 2 + 2 * CACHE_ENTRIES[raw.opcode]
    return end - 2 * raw.argument if IS_BACKWARD[raw.opcode] else end + 2 * raw.argument


RULE_OF = [RULES.get(name) for name in NAME]
SPECIAL = {
    OPCODE[name]: method
    for name, method in {
        "CACHE": _Decoding.skip,
        "PRECALL": _Decoding.skip,
        "NOT_TAKEN": _Decoding.skip,  # for `sys.monitoring` alone
        "KW_NAMES": _Decoding.hold_keyword_names,
        "CALL": _Decoding.add_call,
        "CALL_KW": _Decoding.add_keyword_call,
        "LOAD_METHOD": _Decoding.add_method_load,
        "RETURN_CONST": _Decoding.add_constant_return,
        "LOAD_SMALL_INT": _Decoding.add_small_integer,
        "LOAD_COMMON_CONSTANT": _Decoding.add_common_constant,
        "BINARY_OP": _Decoding.add_operator,
        "CALL_FUNCTION_EX": _Decoding.add_unpacking_call,
        **dict.fromkeys(FUSED, _Decoding.add_fused),
    }.items()
    if name in OPCODE
}
