"""Numbers that are equal and not the same: 2 and 2.0, 0.0 and -0.0. What is computed with one is not what is computed with the other."""

import math

import dynascope
import pytest
import torch

PROGRAMS = {
    "powers": lambda x, n, s: (x * 2, n**2.0, n**2, s**2, s**2.0),
    "products": lambda x, n, s: (x * 2, n * 1.0, n * 1, n * True, s * 1),
    "zeros": lambda x, n, s: (x * 2, s * 0.0, s * -0.0, s + 0.0, s + -0.0, s - 0.0),
    "signs": lambda x, n, s: (x * math.copysign(1.0, s * -0.0), x * math.copysign(1.0, s * 0.0), math.copysign(s, -0.0)),
}


@pytest.mark.compiler
@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_each_is_itself(name, dynamic):
    program = PROGRAMS[name]
    for backend in ("eager", "dynascope"):
        compiled = dynascope.compile(program, backend=backend, dynamic=dynamic)
        for n, s in ((2, 1.5), (5, 2.5), (4, -1.5), (3, 0.5), (1, 0.0), (0, -0.0)):
            assert repr(compiled(torch.ones(2), n, s)) == repr(program(torch.ones(2), n, s)), (n, s)


@pytest.mark.parametrize("dynamic", [None, True])
def test_a_nan_is_in_a_row_that_holds_it(dynamic):
    """Containers ask whether it is the same object first, and a NaN equals nothing."""

    def program(x, n, row):
        return x + 1, n in row, row.count(n), row == [n, 2.0], n == row[0]

    compiled = dynascope.compile(program, backend="eager", dynamic=dynamic)
    for n, first in ((math.nan, math.nan), (float("nan"), math.nan), (1.5, 1.5), (math.nan, math.nan)):
        assert compiled(torch.ones(1), n, [first, 2.0])[1:] == program(torch.ones(1), n, [first, 2.0])[1:]
