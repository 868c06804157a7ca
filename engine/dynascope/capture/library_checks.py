"""A check of what a tensor holds, which raises where it does not hold it: the graph makes it, and goes on as if it held.

    if not torch._is_all_true(valid): raise ValueError(...)      ->      torch._assert_async(ok)
    assert loss.isfinite(), "diverged"                           ->      torch._assert_async(ok)
    if loss.isnan(): raise FloatingPointError(step)              ->      torch._assert_async(not loss.isnan())

If it does not hold the graph raises, the region runs as it was written, and Python raises the error in its own words.
One whose error the program may catch is a break: which way it goes on is for Python to say.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from dynascope.capture.calls.late_numbers import assume
from dynascope.capture.places import is_own
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
        return holds_late(machine, frame, value, instruction, jumps_if=jumps_if)
    if not isinstance(value, TensorValue) or value.example.numel() != 1:
        return None
    if value.device.type != "cpu" and not machine.options.checks_devices:
        return None
    if is_caught(machine):
        return None
    instructions = frame.program.instructions
    if leads_to_raise(instructions, frame.program.index[instruction] + 1):
        wanted = jumps_if
    elif leads_to_raise(instructions, frame.program.index[instruction.target]):
        wanted = not jumps_if
    else:
        return None
    from dynascope.capture.calls.tensors import apply_function

    make_sure(machine, value if wanted else apply_function(machine, torch.logical_not, [value], {}))
    return wanted


def make_sure(machine: Machine, holds: Value) -> None:
    """The graph raises where this is not so, and the region runs as it was written."""
    from dynascope.capture.calls.tensors import apply_function, apply_method

    assert isinstance(holds, TensorValue)
    if holds.device.type != "cpu":  # a failed assertion on a device ends its whole context; eager reads the value here too
        holds = apply_method(machine, torch.Tensor.cpu, [holds], {})
        holds.node.meta["checks_device"] = True
    holds.node.meta[CHECKED] = True
    apply_function(machine, torch._assert_async, [holds], {})


def holds_late(machine: Machine, frame: Frame, value: ConditionValue, instruction: Instruction, *, jumps_if: bool) -> bool | None:
    """The same of an `assert` on a number that only the run knows: as if the program had said it with `torch._check`."""
    following = frame.program.instructions[frame.program.index[instruction] + 1]
    if is_caught(machine) or not jumps_if or not value.example or not is_assertion(following):
        return None
    assume(machine, value.relation, value.node)
    return True


def is_caught(machine: Machine) -> bool:
    """Whether the program may catch what is raised here, and go on."""
    return machine.catchers > machine.catchers_of_absence or any(map(catches, machine.frames))


def is_assertion(instruction: Instruction) -> bool:
    """Whether an `assert` raises here. From CPython 3.14 on its class is a constant."""
    return instruction.operation == "LOAD_ASSERTION_ERROR" or (
        instruction.operation == "LOAD_CONST" and instruction.value is AssertionError
    )


JUMPS = {"POP_JUMP_IF_TRUE": True, "POP_JUMP_IF_FALSE": False}


def goes_on_in_caller(machine: Machine, value: Value) -> bool | None:
    """The same of `return bool(valid)` in a library's function whose caller, library code too, raises if it is not so."""
    if len(machine.frames) < 2:
        return None
    caller, frame = machine.frames[-2:]
    if is_own(frame.globals) or frame.program.instructions[frame.next].operation != "RETURN_VALUE":
        return None
    following = caller.program.instructions[caller.next : caller.next + 2]
    jump = next((each for each in following if each.operation != "TO_BOOL"), None)
    if jump is None or jump.operation not in JUMPS:
        return None
    return goes_on(machine, caller, value, jump, jumps_if=JUMPS[jump.operation])


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
    """Whether all that happens from here on is that something is put together and raised."""
    for instruction in instructions[start : start + FAR]:
        operation = instruction.operation
        if operation == "RAISE_VARARGS":
            return True
        if instruction.target is not None or operation.startswith(ENDS_OTHERWISE):
            return False
    return False


ENDS_OTHERWISE = ("STORE_", "DELETE_", "RETURN_", "YIELD_", "JUMP_", "SEND", "RERAISE", "FOR_ITER")
