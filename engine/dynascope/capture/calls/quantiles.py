"""`torch.quantile` of a tensor of fractions, which it looks at where they are on the CPU: a check in the graph.

    torch.quantile(x, q)        quantile(x, q), _assert_async(all(0 <= q <= 1))

The check is part of a composite function (aten/src/ATen/native/Sorting.cpp) and depends on the device, so what is recorded on meta
tensors is without it.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import torch

from dynascope.capture.calls import equivalents
from dynascope.capture.calls.arguments import Arguments, Keywords, argument
from dynascope.capture.calls.registry import meaning
from dynascope.capture.calls.tensors import apply_function, apply_method
from dynascope.capture.values import NONE, TensorValue, Value

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine


def quantile(apply: Any, function: Any, machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    found = apply(machine, function, arguments, keywords)
    fractions = machine.realize(argument(arguments, keywords, 1, "q", NONE))
    if isinstance(fractions, TensorValue) and fractions.device.type == "cpu":
        machine.finish(equivalents.enter(machine, check_fractions, [fractions]))
    return found


def check_fractions(q):
    torch._assert_async(((q >= 0) & (q <= 1)).all(), "quantile() q values must be in the range [0, 1]")


for name in ("quantile", "nanquantile"):
    meaning(getattr(torch, name))(functools.partial(quantile, apply_function, getattr(torch, name)))
    meaning(getattr(torch.Tensor, name))(functools.partial(quantile, apply_method, getattr(torch.Tensor, name)))
