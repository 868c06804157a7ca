"""Operators that write a tensor into a part of a copy: meta kernels, and the kernels made from them, look neither whether there is
such a part nor whether the tensor is of its shape.

    torch.select_scatter(x, y, 0, 4)       x.select(0, 4) is taken too, which may raise, and be the smallest size that x can have
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from dynascope.capture.calls import equivalents
from dynascope.capture.calls.arguments import Arguments, Keywords, argument
from dynascope.capture.calls.registry import meaning
from dynascope.capture.calls.tensors import apply_function
from dynascope.capture.reasons import ProgramRaises, TorchCallFails
from dynascope.capture.signals import Break
from dynascope.capture.values import NONE, TensorValue, Value

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine


@meaning(torch.select_scatter, torch.Tensor.select_scatter)
def select_scatter(machine: Machine, arguments: Arguments, keywords: Keywords) -> Any:
    check_tensors(machine, arguments, keywords)
    return equivalents.enter(machine, into_selected, arguments, keywords)


@meaning(torch.slice_scatter, torch.Tensor.slice_scatter)
def slice_scatter(machine: Machine, arguments: Arguments, keywords: Keywords) -> Any:
    check_tensors(machine, arguments, keywords)
    return equivalents.enter(machine, into_slice, arguments, keywords)


def check_tensors(machine: Machine, arguments: Arguments, keywords: Keywords) -> None:
    """Of anything else torch says in its own words that it takes none."""
    for at, name in enumerate(("input", "src")):
        if not isinstance(machine.realize(argument(arguments, keywords, at, name, NONE)), TensorValue):
            raise Break(ProgramRaises("TypeError", machine.expression()))


def into_selected(input, src, dim, index):
    if input.select(dim, index).shape != src.shape:
        refuse()
    return written(torch.select_scatter, input, src, dim, index)


def into_slice(input, src, dim=0, start=None, end=None, step=1):
    if input.transpose(0, dim)[start:end:step].transpose(0, dim).shape != src.shape:
        refuse()
    return written(torch.slice_scatter, input, src, dim, start, end, step)


def written(function, *arguments):
    return function(*arguments)


def refuse():
    raise RuntimeError


@meaning(written)
def call_as_it_is(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    return apply_function(machine, machine.object_of(arguments[0]), arguments[1:], keywords)


@meaning(refuse)
def break_here(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    raise Break(TorchCallFails(machine.expression(), "what is to be written is not of the part's shape"))
