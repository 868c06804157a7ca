"""`torch.cdist`: up to 25 rows it is one operator, from 26 on products of matrices, which round otherwise. Which of them runs is
a branch on the two numbers of rows, so that each has its own graph for all sizes on its side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from dynascope.capture.calls import equivalents
from dynascope.capture.calls.arguments import Arguments, Keywords, argument
from dynascope.capture.calls.registry import meaning
from dynascope.capture.calls.tensors import apply_function
from dynascope.capture.values import NONE, ConstantValue, TensorValue, Value, constant_of

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine

BY_SIZE, ALWAYS, NEVER = "use_mm_for_euclid_dist_if_necessary", "use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist"
MOST_ROWS = 25
"""From aten/src/ATen/native/Distance.cpp: more rows than these, of either tensor, are multiplied as matrices."""


@meaning(torch.cdist)
def cdist(machine: Machine, arguments: Arguments, keywords: Keywords) -> Any:
    tensors = [machine.realize(argument(arguments, keywords, at, name, NONE)) for at, name in enumerate(("x1", "x2"))]
    mode = constant_of(machine.known(argument(arguments, keywords, 3, "compute_mode", ConstantValue(BY_SIZE))))
    if mode == BY_SIZE and all(isinstance(each, TensorValue) for each in tensors):
        return equivalents.enter(machine, by_size, arguments, keywords)
    return apply_function(machine, torch.cdist, arguments, keywords)


def by_size(x1, x2, p=2.0, compute_mode=BY_SIZE):
    if x1.dim() < 2 or x2.dim() < 2:  # which is refused
        return as_it_is(x1, x2, p)
    many = p == 2 and (x1.shape[-2] > MOST_ROWS or x2.shape[-2] > MOST_ROWS)
    return as_it_is(x1, x2, p, ALWAYS if many else NEVER)


def as_it_is(*arguments):
    return torch.cdist(*arguments)


@meaning(as_it_is)
def call_as_it_is(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    return apply_function(machine, torch.cdist, arguments, keywords)
