"""Calls."""

from __future__ import annotations

from typing import Any

from dynascope.capture.frames import Frame
from dynascope.capture.machine import Machine, operation
from dynascope.capture.opcodes.operators import unary_of_top
from dynascope.capture.protocols import items
from dynascope.capture.protocols.iteration import is_iterable
from dynascope.capture.protocols.length_hints import listed
from dynascope.capture.reasons import ProgramRaises, UnsupportedInstruction
from dynascope.capture.signals import Break
from dynascope.capture.values import NULL, TupleValue, Value
from dynascope.frame.instructions import Instruction
from dynascope.frame.versions import RUNNING


@operation("CALL")
def call(machine: Machine, frame: Frame, instruction: Instruction) -> Any:
    names = instruction.keyword_names
    values = frame.pop_many(instruction.argument)
    second, first = frame.pop_unseen(), frame.pop_unseen()
    function, instance = (first, second) if RUNNING.null_above_callable else called(first, second)
    if instance is not NULL:
        values.insert(0, instance)
    count = len(values) - len(names)
    return machine.call(function, values[:count], dict(zip(names, values[count:], strict=True)))


def called(first: Value, second: Value) -> tuple[Value, Value]:
    """Until 3.12 the lower slot is NULL below a plain callable, or a method below its object."""
    return (second, NULL) if first is NULL else (first, second)


@operation("CALL_FUNCTION_EX")
def call_function_ex(machine: Machine, frame: Frame, instruction: Instruction) -> Any:
    keywords: dict[str, Value] = {}
    if instruction.argument & 1:
        given = frame.pop_unseen()
        if given is not NULL:
            keywords = {machine.object_of(key): value for key, value in items.pairs(machine, machine.realize(given))}
    if not all(isinstance(key, str) for key in keywords):
        raise machine.throw(TypeError, "keywords must be strings")
    arguments = frame.pop()
    if not is_iterable(arguments):  # Python's words name the function
        raise Break(ProgramRaises("TypeError", machine.expression()))
    values = arguments.items if isinstance(arguments, TupleValue) else listed(machine, arguments)
    if RUNNING.null_above_callable:
        frame.pop_unseen()
        function = frame.pop()
    else:
        function = frame.pop()
        frame.pop_unseen()
    return machine.call(function, list(values), keywords)


@operation("CALL_INTRINSIC_1")
def call_intrinsic(machine: Machine, frame: Frame, instruction: Instruction) -> Any:
    if instruction.value == "INTRINSIC_UNARY_POSITIVE":
        return unary_of_top(machine, frame, "UNARY_POSITIVE")
    value = frame.pop()
    if instruction.value == "INTRINSIC_LIST_TO_TUPLE":
        return TupleValue(tuple(value.items))
    if instruction.value == "INTRINSIC_STOPITERATION_ERROR":
        if issubclass(value.python_type, StopIteration):
            raise machine.throw(RuntimeError, "generator raised StopIteration")
        return value
    raise Break(UnsupportedInstruction(instruction.value, machine.expression()))
