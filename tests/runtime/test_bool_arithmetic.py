"""Operators over truth values, alone and mixed with numbers: what torch's promotion makes of them, and errors as eager's."""

from __future__ import annotations

import dynascope
import pytest
import torch
from compiled import check

pytestmark = pytest.mark.compiler

A = torch.tensor([False, False, True, True] * 9)
B = torch.tensor([False, True] * 18)
TWO = [
    torch.add, torch.mul, torch.maximum, torch.minimum, torch.clamp_min, torch.clamp_max, torch.logical_and, torch.logical_xor,
    torch.bitwise_or, torch.bitwise_xor, torch.eq, torch.ne, torch.lt, torch.le, torch.gt, torch.ge, torch.div, torch.atan2,
    torch.fmax, torch.fmin, torch.where,
]  # fmt: skip


@pytest.mark.parametrize("layout", ["flat", "transposed"])
def test_of_two_bools(layout: str) -> None:
    a, b = (A, B) if layout == "flat" else (A.view(4, 9).t(), B.view(9, 4))
    check(lambda a, b: tuple(f(a, b) if f is not torch.where else f(a, b, ~a) for f in TWO), a, b)


def test_with_limits_of_a_wider_type() -> None:
    check(lambda a, b: (a.clamp(b.int(), 1 + a.int()), a.clamp_min(b.float()), a.int().clamp_max(b)), A, B)


@pytest.mark.parametrize("alpha", [False, True, 0, 1, 2])
def test_alpha(alpha: int) -> None:
    check(lambda a, b: (torch.add(a, b, alpha=alpha), torch.add(b, a & b, alpha=alpha)), A, B)


@pytest.mark.parametrize("number", [True, 2, -1, 0.5])
def test_with_a_number(number: float) -> None:
    check(
        lambda a: (
            a + number,
            a * number,
            a.int() - int(number),
            a == number,
            a < number,
            number / (a + 1),
            a.float() ** number,
        ),
        A,
    )


def test_number_and_reductions() -> None:
    check(
        lambda a, b: (
            a.sum(),
            a.any(),
            (a + b).all(),
            (a * b).prod(),
            a.max(),
            a.amin(),
            a.float().mean(),
            a.cumsum(0),
        ),
        A,
        B,
    )


def test_mixed_with_each_type() -> None:
    types = (torch.uint8, torch.int8, torch.int32, torch.float16, torch.bfloat16, torch.float64)
    check(
        lambda a, *others: tuple(f(a, o) for o in others for f in (torch.add, torch.mul, torch.maximum)),
        A,
        *(B.to(t) for t in types),
    )


@pytest.mark.parametrize(
    "program",
    [
        lambda a, b: a - b,
        lambda a, b: -a,
        lambda a, b: torch.add(a, b, alpha=0.5),
        lambda a, b: a.sub(b, alpha=2),
        lambda a, b: torch.rsub(a, b),
    ],
)
def test_what_eager_refuses(program) -> None:
    with pytest.raises(RuntimeError) as theirs:
        program(A, B)
    with pytest.raises(RuntimeError) as ours:
        dynascope.compile(program)(A, B)
    assert str(ours.value) == str(theirs.value)
