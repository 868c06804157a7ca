"""`x.new(size)` makes a tensor of that size; `x.new([5, 8])` one that holds 5 and 8."""

import dynascope
import pytest
import torch


@pytest.mark.parametrize(
    "program",
    [
        lambda x, y: x.new(y.size()),
        lambda x, y: x.new(y.shape[:1]),
        lambda x, y: x.new(torch.Size([2, 3])),
        lambda x, y: x.new(torch.Size([y.size(0)]) + y.shape),
        lambda x, y: x.new(5, 8),
        lambda x, y: torch.Tensor(y.size()),
        lambda x, y: x.new(torch.Size([])),
        lambda x, y: x.new(y[0, 0].size()),
        lambda x, y: x.new(()),
    ],
)
def test_sizes(program):
    x, y = torch.ones(3), torch.zeros(5, 8)
    compiled = dynascope.compile(program, backend="eager")
    assert compiled(x, y).shape == program(x, y).shape


def test_contents():
    x = torch.ones(3)
    for program in (lambda x: x.new([5, 8]), lambda x: x.new((5, 8)) + 0):
        assert dynascope.compile(program, backend="eager")(x).tolist() == [5, 8]
