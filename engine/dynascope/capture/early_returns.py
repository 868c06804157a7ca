"""A function that returns one mask or another, as a tensor decides: the graph computes both, and takes the one that eager would return.

    if not symmetric.all():
        return symmetric                                  ->     torch.where(symmetric.all(), definite, symmetric)
    return torch.linalg.cholesky_ex(value).info.eq(0)

Of masks alone, which have no gradients, made inside and of one kind. What is done on the other way is in the graph and nowhere else; if it
raises there, the graph raises, and the region runs as it was written. Where it is not so the region is captured again, with a break.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch
from torch import fx

from dynascope.capture.effects import WRITTEN
from dynascope.capture.histories import storage_of
from dynascope.capture.library_checks import is_caught
from dynascope.capture.parts import all_parts
from dynascope.capture.raising import stops_device
from dynascope.capture.signals import Break, CaptureAgain
from dynascope.capture.unused import may_go
from dynascope.capture.values import TensorValue, Value
from dynascope.dataclass import dataclass

if TYPE_CHECKING:
    from dynascope.capture.frames import Frame
    from dynascope.capture.machine import Machine
    from dynascope.frame.instructions import Instruction


@dataclass(frozen=True, slots=True)
class EarlyReturn:
    """Of a function that is being followed the other way: what it returns where the truth of `condition` is `taken_if`."""

    condition: TensorValue
    taken_if: bool
    mask: TensorValue
    doings: tuple[int, ...]
    nodes: int
    """What the program had done by then, and how many nodes there were."""


def goes_both_ways(machine: Machine, frame: Frame, value: Value, instruction: Instruction, *, jumps_if: bool) -> bool | None:
    """What the condition is on the way that is followed, where the other one only returns a mask; None where it has to be known."""
    if not isinstance(value, TensorValue) or value.example.dtype is not torch.bool or value.example.numel() != 1:
        return None
    if not can_follow(machine, frame):
        return None
    behind, target = frame.program.index[instruction] + 1, frame.program.index[instruction.target]
    for start, taken_if in ((behind, not jumps_if), (target, jumps_if)):
        mask = returned(machine, frame, start)
        if mask is not None:
            nodes = len(machine.graph.graph.nodes)
            machine.journal.set(machine, "both_ways", machine.both_ways + 1)
            machine.journal.set(frame, "early", EarlyReturn(value, taken_if, mask, doings(machine), nodes))
            return not taken_if
    return None


def can_follow(machine: Machine, frame: Frame) -> bool:
    """Whether a caller waits for the result, and nobody asks how it came to be: a backward pass, a handler of errors. A transform asks
    afterwards (`machine.both_ways`)."""
    is_inside = len(machine.frames) > 1 and frame.generator is None and frame.early is None
    is_plain = not machine.backward_passes and machine.check_read is None and not machine.overriding.asks_modes
    return machine.options.goes_both_ways and is_inside and is_plain and not is_caught(machine)


def returned(machine: Machine, frame: Frame, start: int) -> TensorValue | None:
    first, second = frame.program.instructions[start : start + 2]
    if (first.operation, second.operation) != ("LOAD_FAST", "RETURN_VALUE") or first.value not in frame.slots:
        return None
    mask = machine.realize(frame.slots[first.value])
    return mask if is_mask(machine, frame, mask) else None


def is_mask(machine: Machine, frame: Frame, mask: Value) -> bool:
    """One that the function has made and nothing else holds, so that another tensor may stand for it."""
    if not isinstance(mask, TensorValue) or mask.instance is not None or mask.example.dtype is not torch.bool:
        return False
    nodes, memory = list(machine.graph.graph.nodes), storage_of(mask.node)
    if [node for node in nodes if storage_of(node) == memory] != [mask.node] or nodes.index(mask.node) < frame.began[0]:
        return False
    try:
        return not any(part is mask for part in all_parts(held_elsewhere(machine, frame)))
    except Break:  # something that cannot be made again
        return False


def held_elsewhere(machine: Machine, frame: Frame) -> Iterator[Value]:
    """What callers have, and what was put into something from outside."""
    for value in machine.written:
        yield from WRITTEN[type(value)](value)
    yield from (value for _, value in machine.global_writes.values() if value is not None)
    for each in machine.frames:
        if each is not frame:
            yield from (value for value in (*each.slots.values(), *each.stack) if value is not None)


def doings(machine: Machine) -> tuple[int, ...]:
    return (*machine.doings()[1:], len(machine.written), len(machine.rewritten))


def chosen(machine: Machine, frame: Frame, result: Value) -> Value:
    """What the function returns. That which was followed is `result`."""
    from dynascope.capture.calls.tensors import apply_function

    early, result = frame.early, machine.realize(result)
    made = list(machine.graph.graph.nodes)[early.nodes :]
    is_pure = doings(machine) == early.doings and all(map(leaves_nothing, made))
    is_safe = early.condition.device.type == "cpu" or not any(map(stops_device, made))
    if not (is_pure and is_safe and is_mask(machine, frame, result) and kind_of(result) == kind_of(early.mask)):
        raise CaptureAgain(goes_both_ways=False)
    pair = [early.mask, result] if early.taken_if else [result, early.mask]
    return apply_function(machine, torch.where, [early.condition, *pair], {})


def leaves_nothing(node: fx.Node) -> bool:
    """Whether that it ran cannot be told. What a number of a tensor's leads to may be asked of the program elsewhere."""
    return may_go(node) and not node.meta.get("writes") and "late" not in node.meta


def kind_of(mask: TensorValue) -> tuple:
    return tuple(mask.example.shape), mask.example.stride(), mask.device
