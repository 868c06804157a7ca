"""Pointwise operators at the edges: every pair of special values, and numbers of all sizes, within a few last places of eager.

Left out is what eager itself gets wrong on the CPU: sinh and cosh near overflow, gelu of infinity, remainders by denormals.
"""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from compiled import compiled

pytestmark = pytest.mark.compiler

TYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
SPECIAL = (
    0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 1e-40, -1e-40, 1e-310, 5e-324, 1.17549435e-38, 3.4e38, -3.4e38,
    1.5, -2.5, 0.5, -0.5, 2.0, 3.0, 1e30, -1e30, 88.7, -104.0, -87.4, 710.0, -745.0, 1e-8, -1e-8, 0.99999994, 1.0000001,
    math.pi, -math.pi / 2, 100000.0, -123456.789, 16777217.0, 1e15, 1e-20, 20.5, -20.5, 7.0, -7.0, 0.1, 1 / 3,
)  # fmt: skip
ONE = {
    name: getattr(torch, name)
    for name in [
        "exp",
        "exp2",
        "expm1",
        "log",
        "log2",
        "log1p",
        "sin",
        "cos",
        "tan",
        "asin",
        "acos",
        "atan",
        "tanh",
        "asinh",
        "acosh",
        "atanh",
        "sqrt",
        "rsqrt",
        "reciprocal",
        "sigmoid",
        "neg",
        "abs",
        "floor",
        "ceil",
        "trunc",
        "round",
        "sign",
        "sgn",
        "relu",
        "square",
        "isnan",
        "isinf",
        "isfinite",
        "logical_not",
        "signbit",
        "nan_to_num",
        "frac",
    ]
} | {
    "silu": F.silu,
    "hardsigmoid": F.hardsigmoid,
    "hardswish": F.hardswish,
    "softplus": F.softplus,
    "elu": F.elu,
    "leaky_relu": F.leaky_relu,
    "relu6": F.relu6,
    "hardtanh": F.hardtanh,
    "clamp": lambda x: x.clamp(-1, 1),
    "clamp from 0": lambda x: x.clamp_min(0.0),
    "clamp to 0": lambda x: x.clamp(max=0.0),
    "clamp by nan": lambda x: x.clamp(math.nan, 1.0),
    "power 2": lambda x: x**2,
    "power 3": lambda x: x**3,
    "power 1/2": lambda x: x**0.5,
    "power -1/2": lambda x: x**-0.5,
    "power -1": lambda x: x**-1,
    "power 2.5": lambda x: x**2.5,
    "of 2": lambda x: 2**x,
    "of -2": lambda x: (-2.0) ** x,
    "from 1": lambda x: 1 - x,
    "times 0": lambda x: x * 0.0,
    "modulo 3": lambda x: x % 3,
    "modulo -3": lambda x: x % -3,
    "floor by 3": lambda x: x // 3,
    "floor by 0": lambda x: x // 0.0,
    "to f16": lambda x: x.half(),
    "to bf16": lambda x: x.bfloat16(),
    "to bool": lambda x: x.bool(),
    "where": lambda x: torch.where(x > 0, x, -x),
}
TWO = {
    name: getattr(torch, name)
    for name in [
        "add",
        "sub",
        "mul",
        "div",
        "maximum",
        "minimum",
        "atan2",
        "hypot",
        "copysign",
        "eq",
        "ne",
        "lt",
        "le",
        "gt",
        "ge",
        "logical_and",
        "logical_or",
        "logical_xor",
        "pow",
        "floor_divide",
        "xlogy",
    ]
} | {
    "fmax": torch.fmax,
    "fmin": torch.fmin,
    "truncated": lambda x, y: torch.div(x, y, rounding_mode="trunc"),
    "clamp": lambda x, y: x.clamp(y),
    "where": lambda x, y: torch.where(x > y, x, y),
}


def last_places(ours: torch.Tensor, theirs: torch.Tensor) -> torch.Tensor:
    """How many of the last place of `theirs` they are apart; infinite for another sign of zero, NaN or another truth."""
    if not theirs.dtype.is_floating_point:
        return torch.where(ours == theirs, 0.0, math.inf)
    facts, wide = torch.finfo(theirs.dtype), theirs.double()
    place = 2.0 ** torch.floor(torch.log2(wide.abs().clamp_min(facts.tiny))) * facts.eps
    apart = torch.where((ours == theirs) | (ours.isnan() & theirs.isnan()), 0.0, (ours.double() - wide).abs() / place)
    other_zero = (ours == 0) & (theirs == 0) & (ours.signbit() != theirs.signbit())
    return torch.where(other_zero | apart.isnan(), math.inf, apart)


def check(operators: dict, *inputs: torch.Tensor) -> None:
    """One program for all, so that the compiler runs once."""
    _, call = compiled(lambda *given: tuple(operator(*given) for operator in operators.values()), list(inputs))
    wrong = []
    for (name, operator), ours in zip(operators.items(), call(*inputs), strict=True):
        theirs = operator(*inputs)
        assert ours.dtype == theirs.dtype, name
        apart = last_places(ours, theirs)
        if apart.max() > 2.01:
            worst = int(apart.argmax())
            operands = [given[worst].item() for given in inputs]
            wrong.append(f"{name}{operands}: {ours[worst].item()}, eager has {theirs[worst].item()}")
    assert not wrong, "\n".join(wrong)


def numbers(dtype: torch.dtype) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    normal = torch.randn(3, 100, generator=generator, dtype=torch.float64)
    return torch.cat([normal[0], normal[1] * 20, normal[2].exp()]).to(dtype)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_one_operand(dtype):
    check(ONE, torch.cat([torch.tensor(SPECIAL, dtype=torch.float64).to(dtype), numbers(dtype)]))


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_two_operands(dtype):
    special = torch.tensor(SPECIAL, dtype=torch.float64).to(dtype)
    first, second = special.repeat_interleave(len(SPECIAL)), special.repeat(len(SPECIAL))
    check(TWO, torch.cat([first, numbers(dtype)]), torch.cat([second, numbers(dtype).flip(0)]))


ALONE = {
    "sum": lambda x: x.sum(),
    "rows": lambda x: x.view(1, -1).sum(0),
    "mean": lambda x: x.mean(),
    "nansum": lambda x: x.nansum(),
    "cumsum": lambda x: x.cumsum(0),
    "prod": lambda x: x.prod(),
    "cumprod": lambda x: x.cumprod(0),
    "amax": lambda x: x.amax(),
}


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_a_sum_of_one_negative_zero(dtype):
    check_each = {name: (lambda x, function=function: function(x).reshape(-1)) for name, function in ALONE.items()}
    check(check_each, torch.tensor([-0.0], dtype=dtype))


@pytest.mark.parametrize("limits", [{"min": math.nan}, {"max": math.nan}, {"min": math.nan, "max": 1.0}], ids=str)
def test_limits_that_are_not_a_number(limits):
    """Torch before 2.13 takes a lone one for none."""
    x = torch.tensor([1.5, math.nan, -2.0, 0.0])
    _, call = compiled(lambda x: x.clamp(**limits) + 1, [x])
    torch.testing.assert_close(call(x)[0], x.clamp(**limits) + 1, equal_nan=True)
