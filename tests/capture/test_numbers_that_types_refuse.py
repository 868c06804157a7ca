"""Numbers beside tensors of an ordinary float type that eager refuses: truth values, complex numbers and ones out of reach."""

from __future__ import annotations

import dynascope
import pytest
import torch
from torch.nn import functional as F

PROGRAMS = {
    "add, tensor": lambda x, number: torch.add(x, x, alpha=number),
    "add, number": lambda x, number: x.add(1, alpha=number),
    "sub": lambda x, number: torch.sub(x, x, alpha=number),
    "rsub": lambda x, number: torch.rsub(x, 2, alpha=number),
    "add_": lambda x, number: x.clone().add_(x, alpha=number),
    "out=": lambda x, number: torch.add(x, x, alpha=number, out=torch.empty(2, dtype=x.dtype)),
    "each of a list": lambda x, number: torch._foreach_add([x, x], [x, x], alpha=number)[1],
    "addcmul": lambda x, number: torch.addcmul(x, x, x, value=number),
    "addcdiv": lambda x, number: torch.addcdiv(x, x, x, value=number),
    "leaky_relu": lambda x, number: F.leaky_relu(x, number),
    "elu": lambda x, number: F.elu(x, number),
    "full_like": lambda x, number: torch.full_like(x, number),
}
NUMBERS = [2, True, 2.5, 1j, False, 1e300, 1.0, -1e39, float("inf")]


def outcome(function, *arguments):
    try:
        result = function(*arguments)
    except Exception as error:
        return type(error).__name__, str(error).partition("\n")[0]
    return str(result), result.dtype


@pytest.mark.turns(6)
@pytest.mark.may_break
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64, torch.bool])
@pytest.mark.parametrize("name", PROGRAMS)
def test_numbers_are_refused_as_in_eager(name, dtype):
    program = PROGRAMS[name]
    compiled = dynascope.compile(program, dynamic=False)
    x = torch.tensor([1, 3]).to(dtype)
    for number in NUMBERS:
        assert outcome(compiled, x, number) == outcome(program, x, number), number


VARYING = PROGRAMS | {
    "celu": lambda x, number: F.celu(x, number),
    "hardtanh": lambda x, number: F.hardtanh(x, -0.5, number),
    "softplus": lambda x, number: F.softplus(x, number),
    "std": lambda x, number: x.std(correction=number),
    "var_mean": lambda x, number: torch.var_mean(x, correction=number)[0],
}


@pytest.mark.may_break
@pytest.mark.parametrize("name", VARYING)
def test_numbers_that_vary_are_refused_as_in_eager(name):
    """After calls that made a kernel for all numbers."""
    program = VARYING[name]
    compiled = dynascope.compile(program)
    x = torch.tensor([1.0, 3.0])
    for number in (0.5, 0.25, 1e300, -1e39, float("nan"), 0.125):
        assert outcome(compiled, x, number) == outcome(program, x, number), number


@pytest.mark.may_break
@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int32, torch.int64])
@pytest.mark.parametrize(
    "program",
    [
        lambda x, number: x % number,
        lambda x, number: x // number,
        lambda x, number: torch.fmod(x, number),
        lambda x, number: torch.div(x, number, rounding_mode="trunc"),
    ],
)
def test_divisors_that_are_zero_as_elements(program, dtype):
    """The processor ends a process that divides by them."""
    compiled = dynascope.compile(program)
    x = torch.tensor([1, 30]).to(dtype)
    for number in (2, 3, 7, 127, 256, 300, 2**32, 2**40 + 1, 5):
        assert outcome(compiled, x, number) == outcome(program, x, number), number
