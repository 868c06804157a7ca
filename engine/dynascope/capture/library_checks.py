"""A check of what a tensor holds, which raises where it does not hold it: the graph makes it, and goes on as if it held.

    if not torch._is_all_true(valid): raise ValueError(...)      ->      torch._assert_async(ok)
    assert loss.isfinite(), "diverged"                           ->      torch._assert_async(ok)
    if loss.isnan(): raise FloatingPointError(step)              ->      torch._assert_async(not loss.isnan())
    if n > most: raise ValueError(n)                             ->      torch._check(not n > most)     of a number only the run knows

If it does not hold the graph raises, the region runs as it was written, and Python raises the error in its own words.
One whose error the program may catch is a break: which way it goes on is for Python to say.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from dynascope.capture.calls.late_numbers import assume, check_late
from dynascope.capture.calls.late_truths import truth_read
from dynascope.capture.clocks import clock_among
from dynascope.capture.values import ConditionValue, TensorValue, Value

if TYPE_CHECKING:
    from dynascope.capture.frames import Frame
    from dynascope.capture.machine import Machine
    from dynascope.frame.instructions import Instruction

CHECKED = "checked"
"""What a node of a graph is marked with whose value decides whether the region runs as it was written."""
FAR = 80
"""Instructions of a message that is put together before it is raised."""


def goes_on(machine: Machine, frame: Frame, value: Value, instruction: Instruction, *, jumps_if: bool) -> bool | None:
    """What the condition is taken to be, where the other way only raises; None where it has to be known."""
    if isinstance(value, ConditionValue):
        is_asked = not clock_among(machine.graph.numbers, value.relation)
    else:
        is_asked = may_be_asserted(machine, value)
    if not is_asked or is_caught(machine):
        return None
    instructions = frame.program.instructions
    if leads_to_raise(instructions, frame.program.index[instruction] + 1):
        wanted = jumps_if
    elif leads_to_raise(instructions, frame.program.index[instruction.target]):
        wanted = not jumps_if
    else:
        return None
    make_sure_of(machine, value, wanted=wanted)
    return wanted


def may_be_asserted(machine: Machine, value: Value) -> bool:
    """Whether it is a tensor of one element that the graph can ask."""
    if not isinstance(value, TensorValue) or value.example.numel() != 1:
        return False
    return value.device.type == "cpu" or machine.options.checks_devices


def make_sure_of(machine: Machine, value: Value, *, wanted: bool) -> None:
    """That its truth is what is wanted: where it is not the graph raises, and the region runs as it was written."""
    from dynascope.capture.calls.tensors import apply_function

    tensor = truth_read(machine, value) if isinstance(value, ConditionValue) else value
    if may_be_asserted(machine, tensor):
        make_sure(machine, tensor if wanted else apply_function(machine, torch.logical_not, [tensor], {}))
    elif wanted and value.example:
        assume(machine, value.relation, value.node)
    else:  # the number at hand is made up and need not be one that the program means: nothing is relied on
        check_late(machine, value.node if wanted else machine.graph.late_number(operator.not_, (value.node,), wanted))


def make_sure(machine: Machine, holds: Value) -> None:
    """The graph raises where this is not so, and the region runs as it was written."""
    from dynascope.capture.calls.tensors import apply_function, apply_method

    assert isinstance(holds, TensorValue)
    if holds.device.type != "cpu":  # a failed assertion on a device ends its whole context; eager reads the value here too
        holds = apply_method(machine, torch.Tensor.cpu, [holds], {})
        holds.node.meta["checks_device"] = True
    holds.node.meta[CHECKED] = True
    apply_function(machine, torch._assert_async, [holds], {})


def is_caught(machine: Machine) -> bool:
    """Whether the program may catch what is raised here, and go on."""
    return machine.catchers > machine.catchers_of_absence or any(map(catches, machine.frames))


def catches(frame: Frame) -> bool:
    """Whether an error here is handled by this frame, which then goes on: a `with` hands it to its manager, and most let it pass
    (`torch.no_grad`). One that does not is run by Python each time."""
    instruction = frame.instruction
    while instruction.handler is not None:
        target = instruction.handler.target
        at = frame.program.index[target]
        begins = [each.operation for each in frame.program.instructions[at : at + 3]]
        if begins[:2] == ["PUSH_EXC_INFO", "WITH_EXCEPT_START"]:
            instruction = target
        elif begins == ["COPY", "POP_EXCEPT", "RERAISE"]:
            instruction = frame.program.instructions[at + 2]
        else:
            return True
    return False


def leads_to_raise(instructions: Sequence[Instruction], start: int) -> bool:
    """Whether all that happens from here on is that something is put together, by names of its own too, and raised."""
    for instruction in instructions[start : start + FAR]:
        operation = instruction.operation
        if operation == "RAISE_VARARGS":
            return True
        if instruction.target is not None or (operation.startswith(ENDS_OTHERWISE) and operation != "STORE_FAST"):
            return False
    return False


ENDS_OTHERWISE = ("STORE_", "DELETE_", "RETURN_", "YIELD_", "JUMP_", "SEND", "RERAISE", "FOR_ITER")
