"""Numbers that vary beside complex tensors: torch may make complex numbers of them, which are no expression of a size."""

from __future__ import annotations

import dynascope
import pytest
import torch

PROGRAMS = {
    "float_power": torch.float_power,
    "number ** tensor": lambda x, number: number**x,
    "float_power of a number": lambda x, number: torch.float_power(number, x),
    "pow": lambda x, number: x**number,
    "mul": lambda x, number: x * number + number,
    "alpha": lambda x, number: torch.add(x, x, alpha=number),
    "full": lambda x, number: torch.full_like(x, number) * x,
    "masked": lambda x, number: x.masked_fill(x.real > 2, number),
    "complex": lambda x, number: x * complex(number, number),
    "imaginary": lambda x, number: x + number * 1j,
}


@pytest.mark.may_break
@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_each_call_has_its_own_number(name, dynamic):
    program = PROGRAMS[name]
    compiled = dynascope.compile(program, dynamic=dynamic)
    x = torch.tensor([1 + 2j, 3.0])
    for number in (2, 2.5, -1, 3, 4, 5.5, 7, 1.25):
        torch.testing.assert_close(compiled(x, number), program(x, number), equal_nan=True)


@pytest.mark.may_break
def test_a_truth_value_that_follows_from_a_size():
    """What torch's own functions decide on by a size is asked at several."""

    @dynascope.compile(dynamic=True)
    def program(x, n):
        return torch.nn.functional.pad(x, (0, n)).sum(0), x.unflatten(0, (-1, 2)).sum(1)

    for rows in (4, 6, 2, 8):
        x = torch.arange(3.0 * rows).view(rows, 3)
        total, pairs = program(x, rows)
        assert torch.equal(total[:3], x.sum(0)) and total.shape == (3 + rows,) and pairs.shape == (rows // 2, 3)


NUMBERS = [complex(-0.0, 0.0), complex(2, -0.0), complex(0, -2), -2j, complex(-0.0, -0.0)]
NUMBERS += [complex(float("nan"), 1), complex(1, float("-inf"))]


@pytest.mark.parametrize("number", NUMBERS, ids=repr)
@pytest.mark.parametrize("backend", ["eager", "dynascope"])
def test_a_zero_has_its_sign_and_infinity_a_name(number, backend):
    """Python's text of a complex number is a sum, which read again is another number."""

    def program(x):
        return x * number, x + number, torch.full((2,), number), torch.tensor([number, 1j]) * x, torch.stack([x * number, x - number])

    x = torch.tensor([1.0, -2.0])
    found = dynascope.compile(program, backend=backend, fullgraph=True)(x)
    assert list(map(str, found)) == list(map(str, program(x)))
