"""Run a function up to an instruction, hand over everything, and go on in a resume code.

The prefix code is the original with the instruction replaced by "return what is in the frame": each stack slot is
stored into a local of its own (a NULL leaves that local unbound), so `locals()` tells all.
"""

from __future__ import annotations

import copy
import sys
import traceback
from collections.abc import Iterator
from types import CellType, CodeType, FunctionType

from dynascope.frame.assembler import assemble
from dynascope.frame.builder import CodeBuilder
from dynascope.frame.instructions import Instruction, decode
from dynascope.frame.liveness import Liveness
from dynascope.frame.resume import (
    CellContentParameter,
    CellParameter,
    LocalParameter,
    StackParameter,
    make_resume_code,
)
from dynascope.frame.shape import HIDDEN, CodeShape
from dynascope.frame.stack_shape import SlotKind, stack_shapes
from dynascope.frame.versions import OPCODE, RUNNING

from . import programs


class Stopped(tuple):
    """What a prefix returns when it reached the instruction: the frame's slots by name."""


def resume_points(code: CodeType) -> list[int]:
    """Indexes of the instructions after the prologue that can be reached."""
    instructions = decode(code)
    reachable = stack_shapes(instructions)
    start = next(i for i, instruction in enumerate(instructions) if instruction.operation == "RESUME")
    stepped_over = set(_loop_exits(instructions))
    return [i for i, at in enumerate(instructions) if i > start and at in reachable and i not in stepped_over]


def _loop_exits(instructions: list[Instruction]) -> Iterator[int]:
    """What FOR_ITER steps over at its target never runs, so nothing can stop there."""
    for instruction in instructions:
        if instruction.operation == "FOR_ITER":
            first = instructions.index(instruction.target)
            yield from range(first, first + RUNNING.loop_exit_length)


def prefix_code(code: CodeType, index: int) -> CodeType:
    instructions = decode(code)
    at = instructions[index]
    stack = stack_shapes(instructions)[at]
    shape = CodeShape.of(code)
    builder = CodeBuilder(shape)
    builder.position = at.position
    mark = builder.label()
    builder.place(mark)
    for position in reversed(range(len(stack))):
        if stack[position].kind is SlotKind.PREVIOUS_EXCEPTION and stack[position] not in stack[:position]:
            builder.load_function(sys.exception)
            builder.call(0)
            builder.store_local(f"stack?{position}")
            builder.emit("POP_EXCEPT")
        elif stack[position].kind is SlotKind.OFFSET:
            builder.pop()  # the resume code makes it anew; on 3.14 it is no object that a local could hold
        else:
            builder.store_local(f"stack?{position}")
    hidden = [name for name in shape.locals if name.endswith(HIDDEN) and name not in shape.cell_variables]
    for name in (*hidden, *shape.cell_variables, *shape.free_variables):
        if "LOAD_FAST_AND_CLEAR" in OPCODE:
            builder.take_local(name)
        else:
            builder.load_cell_itself(name)
        builder.store_local(f"cell?{name.replace(HIDDEN, '!')}")
        if name not in hidden:
            builder.load_constant(CellType())  # locals() expects a cell there
            builder.store_local(name)
    builder.load_function(Stopped)
    builder.load_function(locals)
    builder.call(0)
    builder.load_method("items")
    builder.call(0)
    builder.call(1)
    builder.return_value()
    at.operation, at.target, at.handler = "JUMP_FORWARD", mark, None
    return assemble([*instructions, *builder.instructions], shape)


def is_hidden(name: str) -> bool:
    return "?" in name


class Continuation:
    """A resume code with the values to call it by."""

    def __init__(self, code: CodeType, index: int, stopped: Stopped, function_globals: dict) -> None:
        slots = dict(stopped)
        instructions = decode(code)
        at = instructions[index]
        stack = stack_shapes(instructions)[at]
        nulls = [
            p for p, slot in enumerate(stack) if f"stack?{p}" not in slots and slot.kind is not SlotKind.OFFSET
        ]
        raw = {n.removeprefix("cell?").replace("!", HIDDEN): v for n, v in slots.items() if n.startswith("cell?")}
        self.cells = {name: value for name, value in raw.items() if isinstance(value, CellType)}
        self.locals = {name: value for name, value in slots.items() if not is_hidden(name) and name not in self.cells}
        self.locals |= {name: value for name, value in raw.items() if name not in self.cells}
        live = Liveness(instructions, CodeShape.of(code)).before(at)
        self.locals = {name: value for name, value in self.locals.items() if name in live}
        self.resume = make_resume_code(code, instructions, at, nulls, self.locals, self.cells)
        closure = tuple(self.cells[name] for name in self.resume.code.co_freevars)
        self.code = self.resume.code
        self.closure = closure or None
        self.arguments = [self.value(parameter, slots) for parameter in self.resume.parameters]
        self.globals = function_globals

    def value(self, parameter, slots):
        match parameter:
            case StackParameter(position):
                return slots[f"stack?{position}"]
            case LocalParameter(name):
                return self.locals[name]
            case CellParameter(name):
                return self.cells[name]
            case CellContentParameter(name):
                return self.cells[name].cell_contents

    def run(self):
        return FunctionType(self.code, self.globals, closure=self.closure)(*self.arguments)

    def stop_at(self, index: int):
        """Run up to another instruction, of the resume code this time; the result may be Stopped."""
        prefix = prefix_code(self.code, index)
        return FunctionType(prefix, self.globals, closure=self.closure)(*self.arguments)


def stop(function: FunctionType, index: int, arguments: tuple):
    prefix = FunctionType(
        prefix_code(function.__code__, index),
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    prefix.__kwdefaults__ = function.__kwdefaults__
    return prefix(*arguments)


def run_through(function: FunctionType, index: int, arguments: tuple):
    """The function's result, stopped once at the instruction (if it gets there) and resumed."""
    stopped = stop(function, index, arguments)
    if not isinstance(stopped, Stopped):
        return stopped
    return Continuation(function.__code__, index, stopped, function.__globals__).run()


def outcome(run, arguments: tuple):
    """Everything that can be observed of `run(arguments)`: result or exception with its line, and the log."""
    programs.log.clear()
    try:
        result = ("returned", run(copy.deepcopy(arguments)))
    except Exception as error:
        lines = [
            frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == programs.__file__
        ]
        chain = [type(e).__name__ for e in (error, error.__context__, error.__cause__)]
        result = ("raised", chain, str(error), lines[-1:])
    handled = sys.exception()
    return result, list(programs.log), handled
