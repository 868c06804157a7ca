"""`torch.cov` and `torch.corrcoef` as the operators that they come down to.

    torch.cov(x)        d = x - (x.sum(1) / n)[:, None];  (d @ d.T / (n - 1)).squeeze()

The composite functions (aten/src/ATen/native/Correlation.cpp) ask a tensor whether there are enough observations, which is a number of
sizes where no weights are given. With weights, and where there are too few and torch warns, they are left to torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from dynascope.capture.calls import equivalents
from dynascope.capture.calls.arguments import Arguments, Keywords
from dynascope.capture.calls.registry import meaning
from dynascope.capture.calls.tensors import apply_function
from dynascope.capture.values import TensorValue, Value

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine


def _meaning_of(function: Any, method: Any, equivalent: Any, options: frozenset[str]) -> None:
    @meaning(function, method)
    def call(machine: Machine, arguments: Arguments, keywords: Keywords) -> Any:
        is_plain = len(arguments) == 1 and keywords.keys() <= options
        if is_plain and isinstance(tensor := machine.realize(arguments[0]), TensorValue) and is_understood(tensor):
            return equivalents.enter(machine, equivalent, arguments, keywords)
        return apply_function(machine, function, arguments, keywords)


def is_understood(tensor: TensorValue) -> bool:
    return tensor.example.dim() <= 2 and tensor.example.dtype is not torch.bool and bool(tensor.example.numel())


def covariance(input, correction=1):
    rows = input if input.dim() == 2 else input.reshape(1, -1)
    count = rows.shape[1]
    if count - correction <= 0:
        return as_it_is(input, correction)
    apart = rows - (rows.sum(1) / count).unsqueeze(1)
    return (torch.mm(apart, apart.t().conj()) / (count - correction)).squeeze()


def correlation(input):
    found = covariance(input)
    if found.dim() == 0:
        return found / found
    deviations = torch.sqrt(torch.real(found.diag()) if found.is_complex() else found.diag())
    found = found / deviations.view(-1, 1) / deviations.view(1, -1)
    return torch.complex(found.real.clip(-1, 1), found.imag.clip(-1, 1)) if found.is_complex() else found.clip(-1, 1)


def as_it_is(*arguments):
    return torch.cov(arguments[0], correction=arguments[1])


@meaning(as_it_is)
def call_as_it_is(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    return apply_function(machine, torch.cov, arguments[:1], {"correction": arguments[1]})


_meaning_of(torch.cov, torch.Tensor.cov, covariance, frozenset({"correction"}))
_meaning_of(torch.corrcoef, torch.Tensor.corrcoef, correlation, frozenset())
