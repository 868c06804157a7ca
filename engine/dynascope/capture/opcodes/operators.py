"""Arithmetic, comparison, truth and text."""

from __future__ import annotations

import functools
from typing import Any

from dynascope.capture.calls import either_of, late_truths
from dynascope.capture.calls import numbers_and_text as known
from dynascope.capture.calls.arguments import is_none
from dynascope.capture.calls.containers import joined
from dynascope.capture.frames import Frame
from dynascope.capture.machine import Machine, operation
from dynascope.capture.protocols import items, large_dictionaries, operators
from dynascope.capture.protocols.truth import truth
from dynascope.capture.values import (
    ConditionValue,
    ConstantValue,
    EitherValue,
    TensorValue,
    TextValue,
    TupleValue,
    Value,
    boolean,
)
from dynascope.frame.instructions import Instruction


@operation("BINARY_OP")
def binary_op(machine: Machine, frame: Frame, instruction: Instruction) -> Any:
    right, left = frame.pop_unseen(), frame.pop_unseen()
    if EitherValue in (type(left), type(right)):
        return either_of.binary(machine, instruction.value, left, right)
    left, right = (value if isinstance(value, TextValue) else machine.realize(value) for value in (left, right))
    return operators.binary(machine, instruction.value, left, right)


@operation(*operators.UNARY)
def unary_op(machine: Machine, frame: Frame, instruction: Instruction) -> Any:
    return unary_of_top(machine, frame, instruction.operation)


def unary_of_top(machine: Machine, frame: Frame, operation: str) -> Any:
    function = functools.partial(operators.unary, machine, operators.UNARY[operation])
    if type(frame.stack[-1]) is EitherValue:
        return either_of.applied(machine, function, frame.pop_unseen())
    return function(frame.pop())


@operation("UNARY_NOT")
def unary_not(machine: Machine, frame: Frame, instruction: Instruction) -> Value:
    value = machine.realize(frame.pop())
    if isinstance(value, TensorValue):
        value = late_truths.truth_in(machine, value) or value
    found = late_truths.negated(machine, value) if isinstance(value, ConditionValue) else None
    return boolean(not truth(machine, value)) if found is None else found


@operation("TO_BOOL")
def to_bool(machine: Machine, frame: Frame, instruction: Instruction) -> Value:
    return _asked(machine, frame, frame.pop())


@operation("COMPARE_OP")
def compare_op(machine: Machine, frame: Frame, instruction: Instruction) -> Any:
    if EitherValue in map(type, frame.stack[-2:]):
        compare = functools.partial(operators.compare, machine, instruction.value)
        result = either_of.applied(machine, compare, *frame.pop_many(2))
    else:
        result = operators.compare(machine, instruction.value, *frame.pop_pair())
    if not instruction.coerces_to_bool:
        return result
    return _asked(machine, frame, result)


def _asked(machine: Machine, frame: Frame, result: Any) -> Value:
    """As a truth; a tensor, or what only the run knows, stays one for the jump that follows (the break is there), or for `not`."""
    result = machine.finish(result)
    following = frame.program.instructions[frame.next].operation
    if isinstance(result, (TensorValue, ConditionValue)) and following.startswith(("POP_JUMP_IF", "UNARY_NOT")):
        return result
    return boolean(truth(machine, result))


@operation("IS_OP")
def is_op(machine: Machine, frame: Frame, instruction: Instruction) -> Value:
    if isinstance(frame.stack[-2], EitherValue) and is_none(frame.stack[-1]):
        frame.pop_many(2)  # neither is
        return boolean(instruction.value != "is")
    left, right = frame.pop_pair()
    return boolean(operators.is_same(machine, left, right) == (instruction.value == "is"))


@operation("CONTAINS_OP")
def contains_op(machine: Machine, frame: Frame, instruction: Instruction) -> Value:
    container, item = frame.pop_unseen(), frame.pop()
    if (is_there := large_dictionaries.has(machine, container, item)) is not None:
        return boolean(is_there == (instruction.value == "in"))
    container = machine.realize(container)
    found = operators.among_elements(machine, container, item)
    if found is None:
        return boolean(items.contains(machine, container, item) == (instruction.value == "in"))
    if instruction.value != "in":
        found = operators.unary(machine, operators.UNARY["UNARY_INVERT"], found)
    return _asked(machine, frame, found)


@operation("BINARY_SUBSCR")
def binary_subscr(machine: Machine, frame: Frame, instruction: Instruction) -> Any:
    found = large_dictionaries.item(machine, *frame.stack[-2:])
    if found is not None:
        frame.pop_many(2)
        return found
    container, key = frame.pop_pair()
    return items.get(machine, container, key)


@operation("STORE_SUBSCR")
def store_subscr(machine: Machine, frame: Frame, instruction: Instruction) -> Any:
    key, container, value = frame.pop(), frame.pop(), frame.pop_unseen()
    return _dropped(items.set(machine, container, key, value))


@operation("DELETE_SUBSCR")
def delete_subscr(machine: Machine, frame: Frame, instruction: Instruction) -> Any:
    container, key = frame.pop_pair()
    return _dropped(items.delete(machine, container, key))


def _dropped(result: Any) -> Any:
    from dynascope.capture.opcodes.names import dropped

    return dropped(result)


@operation("BINARY_SLICE")
def binary_slice(machine: Machine, frame: Frame, instruction: Instruction) -> Any:
    stop, start, container = frame.pop(), frame.pop(), frame.pop()
    return items.get(machine, container, items.slice_of(start, stop))


@operation("STORE_SLICE")
def store_slice(machine: Machine, frame: Frame, instruction: Instruction) -> Any:
    stop, start, container, value = frame.pop(), frame.pop(), frame.pop(), frame.pop()
    return _dropped(items.set(machine, container, items.slice_of(start, stop), value))


@operation("FORMAT_VALUE")
def format_value(machine: Machine, frame: Frame, instruction: Instruction) -> Value:
    conversion, has_specification = instruction.value
    specification = frame.pop() if has_specification else ConstantValue("")
    return known.format_text(machine, known.convert_text(machine, conversion, frame.pop_unseen()), specification)


@operation("CONVERT_VALUE")
def convert_value(machine: Machine, frame: Frame, instruction: Instruction) -> Value:
    return known.convert_text(machine, instruction.value, frame.pop_unseen())


@operation("FORMAT_SIMPLE")
def format_simple(machine: Machine, frame: Frame, instruction: Instruction) -> Value:
    return known.format_text(machine, frame.pop_unseen(), ConstantValue(""))


@operation("FORMAT_WITH_SPEC")
def format_with_spec(machine: Machine, frame: Frame, instruction: Instruction) -> Value:
    specification, value = frame.pop(), frame.pop_unseen()
    return known.format_text(machine, value, specification)


@operation("BUILD_STRING")
def build_string(machine: Machine, frame: Frame, instruction: Instruction) -> Value:
    return joined(machine, "", TupleValue(tuple(frame.pop_many(instruction.argument))))
