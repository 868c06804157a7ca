"""Integers that wrap around do so in the result's type only."""

import dynascope
import pytest
import torch

PROGRAMS = [
    lambda x: 0.5 - x,
    lambda x: torch.rsub(x, 1.5),
    lambda x: 3 - x,
    lambda x: 0.5 - (-x),
    lambda x: x * 0.5 - x,
]


@pytest.mark.compiler
@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int64])
def test_subtracted_from_a_number(program, dtype):
    x = torch.tensor([0, 1, 127, torch.iinfo(dtype).max, torch.iinfo(dtype).min]).to(dtype)
    torch.testing.assert_close(dynascope.compile(program)(x), program(x))
