"""Jumps, loops, returns and generators' yields."""

from __future__ import annotations

from types import GeneratorType
from typing import Any

from dynascope.capture.calls.equivalents import STAND_FOR
from dynascope.capture.calls.generators import resume
from dynascope.capture.calls.known_tensors import known_number
from dynascope.capture.early_returns import chosen, goes_both_ways
from dynascope.capture.frames import Frame
from dynascope.capture.library_checks import goes_on
from dynascope.capture.machine import Machine, Returned, operation
from dynascope.capture.protocols.attributes import find
from dynascope.capture.protocols.iteration import advance, call_next, iterator
from dynascope.capture.protocols.truth import truth
from dynascope.capture.reasons import ForeignValue
from dynascope.capture.signals import Break, Raised
from dynascope.capture.values import NONE, NULL, ConstantValue, GeneratorValue, InstanceValue, TensorValue, Value
from dynascope.frame.instructions import Instruction
from dynascope.frame.versions import RUNNING


@operation("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT")
def jump(machine: Machine, frame: Frame, instruction: Instruction) -> None:
    frame.jump(instruction.target)


@operation("POP_JUMP_IF_TRUE")
def pop_jump_if_true(machine: Machine, frame: Frame, instruction: Instruction) -> None:
    value = frame.pop()
    known = way(machine, frame, value, instruction, jumps_if=True)
    if truth(machine, value) if known is None else known:
        frame.jump(instruction.target)


@operation("POP_JUMP_IF_FALSE")
def pop_jump_if_false(machine: Machine, frame: Frame, instruction: Instruction) -> None:
    value = frame.pop()
    known = way(machine, frame, value, instruction, jumps_if=False)
    if not (truth(machine, value) if known is None else known):
        frame.jump(instruction.target)


@operation("JUMP_IF_TRUE_OR_POP")
def jump_if_true_or_pop(machine: Machine, frame: Frame, instruction: Instruction) -> None:
    if truth(machine, machine.realize(frame.stack[-1])):
        frame.jump(instruction.target)
    else:
        frame.pop_unseen()


@operation("JUMP_IF_FALSE_OR_POP")
def jump_if_false_or_pop(machine: Machine, frame: Frame, instruction: Instruction) -> None:
    if not truth(machine, machine.realize(frame.stack[-1])):
        frame.jump(instruction.target)
    else:
        frame.pop_unseen()


def way(machine: Machine, frame: Frame, value: Value, instruction: Instruction, *, jumps_if: bool) -> bool | None:
    """What a condition that only the run knows is taken to be; None where it has to be known."""
    known = goes_on(machine, frame, value, instruction, jumps_if=jumps_if)
    if known is None and isinstance(value, TensorValue) and known_number(machine, value) is None:
        return goes_both_ways(machine, frame, value, instruction, jumps_if=jumps_if)
    return known


def is_none(value: Value) -> bool:
    return isinstance(value, ConstantValue) and value.value is None


@operation("POP_JUMP_IF_NONE")
def pop_jump_if_none(machine: Machine, frame: Frame, instruction: Instruction) -> None:
    if is_none(frame.pop()):
        frame.jump(instruction.target)


@operation("POP_JUMP_IF_NOT_NONE")
def pop_jump_if_not_none(machine: Machine, frame: Frame, instruction: Instruction) -> None:
    if not is_none(frame.pop()):
        frame.jump(instruction.target)


# From 3.15 on an iterator has a slot above it, which is NULL here: the index is kept there for lists and tuples alone.
INDEXES = (NULL,) * (RUNNING.iterator_slots - 1)


@operation("GET_ITER", "GET_YIELD_FROM_ITER")
def get_iter(machine: Machine, frame: Frame, instruction: Instruction) -> None:
    frame.push(iterator(machine, frame.pop()))
    frame.stack.extend(INDEXES)


def pop_iterator(frame: Frame) -> None:
    del frame.stack[-RUNNING.iterator_slots :]


@operation("POP_ITER")
def pop_iter(machine: Machine, frame: Frame, instruction: Instruction) -> None:
    pop_iterator(frame)


@operation("FOR_ITER")
def for_iter(machine: Machine, frame: Frame, instruction: Instruction) -> None:
    item = advance(machine, frame.stack[-RUNNING.iterator_slots])
    if item is not None:
        frame.push(item)
        return
    # The END_FOR at the target (3.12 and later) pops what the interpreter steps over.
    frame.jump(instruction.target)
    pop_iterator(frame)
    if RUNNING.loop_exit_length:
        frame.next += RUNNING.loop_exit_length


@operation("RETURN_VALUE")
def return_value(machine: Machine, frame: Frame, instruction: Instruction) -> Returned:
    result = frame.pop_unseen()
    return Returned(result if frame.early is None else chosen(machine, frame, result))


@operation("RETURN_GENERATOR")
def return_generator(machine: Machine, frame: Frame, instruction: Instruction) -> Returned:
    generator = GeneratorValue(frame, STAND_FOR.get(frame.code, GeneratorType))
    frame.generator = generator
    machine.generators.append(generator)
    return Returned(generator)


@operation("YIELD_VALUE")
def yield_value(machine: Machine, frame: Frame, instruction: Instruction) -> Returned:
    returned = Returned(frame.pop_unseen())
    returned.suspended = True
    return returned


@operation("SEND")
def send(machine: Machine, frame: Frame, instruction: Instruction) -> None:
    """`yield from`: one value of the inner iterator, or its result at the end."""
    sent = frame.pop()
    inner = machine.realize(frame.stack[-RUNNING.iterator_slots])
    if isinstance(inner, GeneratorValue):
        item = resume(machine, inner, sent)
        result = inner.object if item is None and inner.object is not None else NONE
    elif not is_none(sent):  # its class's `send` is asked, if it has one
        raise Break(ForeignValue(inner.python_type.__name__, machine.expression()))
    elif isinstance(inner, InstanceValue):
        item, result = next_or_result(machine, inner)
    else:
        item, result = advance(machine, inner), NONE
    if item is not None:
        frame.push(item)
        return
    if not RUNNING.loop_exit_length:
        frame.pop_unseen()
    frame.push(result)
    frame.jump(instruction.target)


def next_or_result(machine: Machine, inner: InstanceValue) -> tuple[Value | None, Value]:
    """The next value of an iterator of the program's own, or None and what its StopIteration tells."""
    with machine.catching():
        try:
            return call_next(machine, inner), NONE
        except Raised as raised:
            if not issubclass(raised.value.python_type, StopIteration):
                raise
            return None, find(machine, raised.value, "value") or NONE


@operation("END_SEND")
def end_send(machine: Machine, frame: Frame, instruction: Instruction) -> None:
    result = frame.pop_unseen()
    pop_iterator(frame)
    frame.push(result)


@operation("RERAISE")
def reraise(machine: Machine, frame: Frame, instruction: Instruction) -> Any:
    value = frame.pop()
    for _ in range(instruction.argument or 0):
        frame.pop_unseen()
    raise Raised(value, again=True)


@operation("GET_LEN")
def get_length(machine: Machine, frame: Frame, instruction: Instruction) -> Value:
    from dynascope.capture.calls.objects import length

    return length(machine, [frame.stack[-1]], {})
