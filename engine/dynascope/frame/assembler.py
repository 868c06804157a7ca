"""Instructions and a shape back into a code object.

    assemble(decode(code), CodeShape.of(code))      behaves as `code`, with the same lines, columns and handlers

Operands are numbered again, jumps get their direction and length, PRECALL, KW_NAMES, EXTENDED_ARG and CACHE are put
where the running version wants them, and stack size, line table and exception table are computed. An instruction
`LABEL` takes no space: it is a place to jump to. The instructions given are only read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from types import CodeType

from dynascope.dataclass import dataclass
from dynascope.frame.exception_table import ExceptionEntry, write_exception_table
from dynascope.frame.instructions import Handler, Instruction, Position
from dynascope.frame.line_table import write_line_table
from dynascope.frame.operands import RULES, SLOT_OPERATIONS, OperandWriter
from dynascope.frame.shape import CodeShape, names_in_code
from dynascope.frame.stack_depth import stack_size
from dynascope.frame.versions import (
    BINARY_OPERATORS,
    CACHE_ENTRIES,
    INVERTED,
    JUMPS,
    OPCODE,
    RUNNING,
    UNCONDITIONAL_JUMPS,
)

EXTENDED_ARG = OPCODE["EXTENDED_ARG"]
USES_SLOT = frozenset(SLOT_OPERATIONS)


class AssemblyError(Exception):
    """The instructions do not make a code object: a jump to nowhere, a loop exit that lies before its loop."""


def assemble(instructions: Sequence[Instruction], shape: CodeShape) -> CodeType:
    """The code object. Locals that instructions use and the shape does not list are added to it."""
    more_locals = _unlisted_locals(instructions, shape)
    tables = OperandWriter(shape.documentation, shape.slots(more_locals))
    layout = _Layout(instructions, tables, shape)
    layout.settle()
    locals_ = shape.locals + more_locals
    return CodeType(
        shape.positional_count,
        shape.positional_only_count,
        shape.keyword_only_count,
        len(locals_),
        stack_size(instructions),
        shape.flags,
        layout.bytecode(),
        tuple(tables.constants),
        tuple(tables.names),
        names_in_code(locals_),
        shape.filename,
        shape.name,
        shape.qualified_name,
        shape.first_line,
        write_line_table(layout.position_runs(), shape.first_line),
        write_exception_table(layout.exception_entries()),
        shape.free_variables,
        names_in_code(shape.cell_variables),
    )


def _unlisted_locals(instructions: Sequence[Instruction], shape: CodeShape) -> tuple[str, ...]:
    known = set(shape.slots())
    used = dict.fromkeys(i.value for i in instructions if i.operation in USES_SLOT)
    return tuple(name for name in used if name not in known)


@dataclass(slots=True, eq=False)
class _Unit:
    """One operation of the running version. `extensions` and `offset` (in code units) are settled by the layout."""

    opcode: int
    argument: int
    position: Position | None
    handler: Handler | None
    target: Instruction | None = None
    extensions: int = 0
    offset: int = 0

    @property
    def end(self) -> int:
        return self.offset + self.extensions + 1 + CACHE_ENTRIES[self.opcode]


class _Layout:
    """The operations of the running version in order, and where each lies."""

    def __init__(self, instructions: Sequence[Instruction], tables: OperandWriter, shape: CodeShape) -> None:
        self.tables = tables
        self.shape = shape
        self.units: list[_Unit] = []
        # For each instruction, the index of its first unit; a label stands for the unit that follows it.
        self.unit_of: dict[Instruction, int] = {}
        self.index_of = {instruction: index for index, instruction in enumerate(instructions)}
        for instruction in instructions:
            self.unit_of[instruction] = len(self.units)
            lower = LOWERING.get(instruction.operation, _Layout.lower_plain)
            lower(self, instruction)

    # -- from our instructions to the running version's operations

    def add(self, instruction: Instruction, operation: str, argument: int = 0) -> _Unit:
        unit = _Unit(OPCODE[operation], argument, instruction.position, instruction.handler)
        unit.extensions = 0 if argument < 256 else (argument.bit_length() - 1) // 8
        self.units.append(unit)
        return unit

    def lower_plain(self, instruction: Instruction) -> None:
        rule = RULES.get(instruction.operation)
        if rule is not None:
            number = rule.write(self.tables, instruction.value, instruction.bits)
        else:
            number = instruction.argument or 0
        self.add(instruction, instruction.operation, number)

    def lower_call(self, instruction: Instruction) -> None:
        names, count = instruction.keyword_names, instruction.argument
        if names and RUNNING.keyword_names_on_stack:
            self.add(instruction, "LOAD_CONST", self.tables.constant(names))
            self.add(instruction, "CALL_KW", count)
            return
        if names:
            self.add(instruction, "KW_NAMES", self.tables.constant(names))
        if RUNNING.has_precall:
            self.add(instruction, "PRECALL", count)
        self.add(instruction, "CALL", count)

    def lower_attribute_load(self, instruction: Instruction) -> None:
        if RUNNING.attribute_has_method_bit or not instruction.is_method:
            self.lower_plain(instruction)
        else:
            self.add(instruction, "LOAD_METHOD", self.tables.name(instruction.value))

    def lower_subscript(self, instruction: Instruction) -> None:
        if "BINARY_SUBSCR" in OPCODE:
            self.lower_plain(instruction)
        else:
            self.add(instruction, "BINARY_OP", BINARY_OPERATORS.index("[]"))

    def lower_unpacking_call(self, instruction: Instruction) -> None:
        self.add(instruction, "CALL_FUNCTION_EX", 0 if RUNNING.keywords_or_null else instruction.argument)

    def lower_free_variables(self, instruction: Instruction) -> None:
        self.add(instruction, "COPY_FREE_VARS", len(self.shape.free_variables))

    def lower_label(self, instruction: Instruction) -> None:
        pass

    def lower_forward_only(self, instruction: Instruction) -> None:
        if self.goes_back(instruction):
            raise AssemblyError(f"{instruction!r} cannot jump backward")
        self.add(instruction, instruction.operation).target = instruction.target

    def lower_jump(self, instruction: Instruction) -> None:
        operation = instruction.operation
        if not self.goes_back(instruction):
            operation = "JUMP_FORWARD"
        elif operation == "JUMP_FORWARD":
            operation = "JUMP_BACKWARD"
        self.add(instruction, operation).target = instruction.target

    def lower_conditional_jump(self, instruction: Instruction) -> None:
        back = self.goes_back(instruction)
        if RUNNING.has_backward_conditional_jumps:
            direction = "POP_JUMP_BACKWARD_" if back else "POP_JUMP_FORWARD_"
            operation = instruction.operation.replace("POP_JUMP_", direction)
            self.add(instruction, operation).target = instruction.target
        elif not back:
            self.add(instruction, instruction.operation).target = instruction.target
        else:
            skip = Instruction("LABEL")
            self.add(instruction, INVERTED[instruction.operation]).target = skip
            self.add(instruction, "JUMP_BACKWARD").target = instruction.target
            self.unit_of[skip] = len(self.units)

    def goes_back(self, jump: Instruction) -> bool:
        index = self.index_of.get(jump.target)
        if index is None:
            raise AssemblyError(f"{jump!r} jumps to {jump.target!r}, which is not in the code")
        return index <= self.index_of[jump]

    # -- where everything lies

    def settle(self) -> None:
        """Widen jumps until every argument fits; they only ever grow, so this ends."""
        jumps = [unit for unit in self.units if unit.target is not None]
        self.place()
        widened = True
        while widened:
            widened = False
            for unit in jumps:
                unit.argument = abs(self.offset_of(unit.target) - unit.end)
                needed = (unit.argument.bit_length() - 1) // 8 if unit.argument > 255 else 0
                if needed > unit.extensions:
                    unit.extensions = needed
                    widened = True
            if widened:
                self.place()

    def place(self) -> None:
        offset = 0
        for unit in self.units:
            unit.offset = offset
            offset = unit.end

    def offset_of(self, instruction: Instruction) -> int:
        """In code units. The end of the code for a label that nothing follows."""
        index = self.unit_of[instruction]
        return self.units[index].offset if index < len(self.units) else self.units[-1].end

    # -- what the code object holds

    def bytecode(self) -> bytes:
        result = bytearray()
        for unit in self.units:
            for shift in range(unit.extensions, 0, -1):
                result += bytes((EXTENDED_ARG, unit.argument >> 8 * shift & 255))
            result.append(unit.opcode)
            result.append(unit.argument & 255)
            result += CACHES[unit.opcode]
        return bytes(result)

    def position_runs(self) -> Iterator[tuple[Position | None, int]]:
        """Neighbours with the same position as one run, as CPython's compiler does."""
        position, start = self.units[0].position, 0
        for unit in self.units:
            if unit.position != position:
                yield position, unit.offset - start
                position, start = unit.position, unit.offset
        yield position, self.units[-1].end - start

    def exception_entries(self) -> Iterator[ExceptionEntry]:
        """Neighbours under the same handler as one entry."""
        handler, start = None, 0
        for unit in self.units:
            if unit.handler is not handler:
                if handler is not None:
                    yield self.entry(handler, start, unit.offset)
                handler, start = unit.handler, unit.offset
        if handler is not None:
            yield self.entry(handler, start, self.units[-1].end)

    def entry(self, handler: Handler, start: int, end: int) -> ExceptionEntry:
        if handler.target not in self.index_of:
            raise AssemblyError(f"a handler at {handler.target!r}, which is not in the code")
        target = self.offset_of(handler.target)
        return ExceptionEntry(2 * start, 2 * end, 2 * target, handler.depth, handler.push_lasti)


CACHES = [bytes(2 * entries) for entries in CACHE_ENTRIES]
LOWERING: dict[str, Callable[[_Layout, Instruction], None]] = {
    **dict.fromkeys(JUMPS, _Layout.lower_forward_only),
    **dict.fromkeys(UNCONDITIONAL_JUMPS, _Layout.lower_jump),
    **dict.fromkeys(INVERTED, _Layout.lower_conditional_jump),
    "CALL": _Layout.lower_call,
    "CALL_FUNCTION_EX": _Layout.lower_unpacking_call,
    "BINARY_SUBSCR": _Layout.lower_subscript,
    "LOAD_ATTR": _Layout.lower_attribute_load,
    "COPY_FREE_VARS": _Layout.lower_free_variables,
    "LABEL": _Layout.lower_label,
}
