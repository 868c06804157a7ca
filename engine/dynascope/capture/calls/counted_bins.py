"""Counts in as many bins as a number that varies says: how often each node of a graph is met, or each class.

    torch.bincount(x, minlength=n)      zeros(n).index_add(0, x, ones): as many as `n`, and an error where one of `x` is no less

Torch gives more bins where one of `x` is no less than `n`. The graph raises then, and the program runs as it was written. Of an `n`
that does not vary the number of bins is one that only the run knows (`late_numbers`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from dynascope.capture.calls.arguments import Arguments, Keywords
from dynascope.capture.calls.equivalents import enter
from dynascope.capture.calls.registry import meaning
from dynascope.capture.calls.tensors import apply_function
from dynascope.capture.metadata import CPU
from dynascope.capture.values import SymbolicNumber, TensorValue

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine


@meaning(torch.bincount, torch.Tensor.bincount)
def bincount(machine: Machine, arguments: Arguments, keywords: Keywords) -> Any:
    given = dict(zip(("input", "weights", "minlength"), arguments, strict=False)) | keywords
    values = {name: machine.realize(value) for name, value in given.items()}
    if len(arguments) == 1 and set(values) == {"input", "minlength"} and can_be_added(values["input"], values["minlength"]):
        return enter(machine, added, [values["input"], values["minlength"]])
    return apply_function(machine, torch.bincount, arguments, keywords)


def can_be_added(counted: Any, bins: Any) -> bool:
    """Others are for torch to complain about. On a GPU an index that is out of range ends more than the graph."""
    if not isinstance(counted, TensorValue) or not isinstance(bins, SymbolicNumber) or bins.size.kind is not int or counted.device != CPU:
        return False
    return counted.example.dim() == 1 and bool(counted.example.numel()) and counted.example.dtype in (torch.int64, torch.int32)


def added(counted, bins):
    return torch.zeros(bins, dtype=torch.int64).index_add_(0, counted, torch.ones_like(counted, dtype=torch.int64))
