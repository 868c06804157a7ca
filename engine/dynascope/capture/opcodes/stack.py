"""Moving values about the stack."""

from __future__ import annotations

from dynascope.capture.frames import Frame
from dynascope.capture.machine import Machine, operation
from dynascope.capture.values import NULL
from dynascope.frame.instructions import Instruction


@operation("NOP", "RESUME", "COPY_FREE_VARS", "EXTENDED_ARG", "CACHE")
def nothing(machine: Machine, frame: Frame, instruction: Instruction) -> None:
    pass


@operation("POP_TOP", "END_FOR")
def pop_top(machine: Machine, frame: Frame, instruction: Instruction) -> None:
    frame.pop_unseen()


@operation("PUSH_NULL")
def push_null(machine: Machine, frame: Frame, instruction: Instruction) -> None:
    frame.push(NULL)


@operation("COPY")
def copy(machine: Machine, frame: Frame, instruction: Instruction) -> None:
    frame.push(frame.stack[-instruction.argument])


@operation("SWAP")
def swap(machine: Machine, frame: Frame, instruction: Instruction) -> None:
    stack, depth = frame.stack, instruction.argument
    stack[-1], stack[-depth] = stack[-depth], stack[-1]
