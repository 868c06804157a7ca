"""How many elements are found, where what is looked through is known at capture.

    mask = torch.eye(4, dtype=torch.bool); s[~mask].view(4, -1)     12 elements of `s`, whatever it holds
    torch.unique_consecutive(torch.tensor([7, 7, 3]))               2, and which they are
    x.repeat_interleave(torch.tensor([2, 0, 1]), 0)                 3 rows

The node is as any that looks for elements, but for its result, whose sizes are numbers: what follows may view it, decide by it, and is
known where all operands are. A mask that only the run knows, or whose sizes vary, is no matter of this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from dynascope.capture.calls import known_tensors

if TYPE_CHECKING:
    from dynascope.capture.calls.tensors import Operation
    from dynascope.capture.machine import Machine

MOST_ELEMENTS = 2**20
"""Of a mask, which is computed once: as many as 1,024 samples have pairs."""


def count(machine: Machine, operation: Operation, counted: torch.Tensor | None) -> int | None:
    """How many a call finds that counts what is true in `counted`, or, where that is None, looks at all its operands."""
    if counted is not None:
        mask = next(tensor for tensor in operation.tensors if tensor.example is counted)
        elements = known_tensors.elements_of(machine, mask, MOST_ELEMENTS)
        return None if elements is None else int(elements.count_nonzero())
    if operation.name == "repeat_interleave":
        return _repeated(machine, operation)
    found = _found(machine, operation)
    if found is None:
        return None
    return len(found[-1]) if isinstance(found, tuple) else len(found)


def mark(operation: Operation, nodes: list[fx.Node]) -> None:
    """Of a call whose count is known, and of each of its results: they are known where the operands are."""
    if all(known_tensors.is_known(tensor.node, MOST_ELEMENTS) for tensor in operation.tensors):
        for node in nodes:
            node.meta[known_tensors.COUNTED] = True


def _repeated(machine: Machine, operation: Operation) -> int | None:
    """By the repeats alone: what is repeated may be anything."""
    repeats = known_tensors.elements_of(machine, operation.tensors[-1])
    if repeats is None or (repeats.numel() == 1 and len(operation.tensors) == 2):  # one for all rows
        return None
    return int(repeats.sum())


def _found(machine: Machine, operation: Operation) -> Any:
    """What the call gives, computed for real; None where an operand is not known."""
    real: dict[int, torch.Tensor] = {}
    for tensor in operation.tensors:
        elements = known_tensors.elements_of(machine, tensor, MOST_ELEMENTS)
        if elements is None:
            return None
        real[id(tensor.example)] = elements
    arguments, keywords = fx.node.map_aggregate((operation.examples, operation.named_examples), lambda each: real.get(id(each), each))
    try:
        with torch.no_grad():
            return operation.target(*arguments, **keywords)
    except Exception:  # which the call itself says
        return None
