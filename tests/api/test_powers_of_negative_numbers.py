"""(-1) ** n and (-2.0) ** x: a graph's text says `-1 ** n` for them, which is another number."""

import dynascope
import pytest
import torch


def of_numbers(x, n):
    return (-1) ** n, pow(-2, n), (-2.5) ** (n & 3), x * (-1) ** n, torch.full((2,), (-2) ** n), -(2**n)


def of_tensors(x, n):
    return (-2.0) ** x, (-1) ** (x * n), pow(-3.0, x), 2.0 ** (-x), -(2.0**x)


@pytest.mark.compiler
@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("program", [of_numbers, of_tensors])
def test_each_number(program, dynamic):
    ways = [
        dynascope.compile(program, backend="eager", dynamic=dynamic),
        dynascope.compile(program, dynamic=dynamic),
        dynascope.aot(program, dynamic=dynamic),
    ]
    for compiled in ways:
        for n in (2, 5, 4, 12, 1, 0):
            x = torch.tensor([2.0, 3.0, -1.0])
            assert repr(compiled(x, n)) == repr(program(x, n)), n
