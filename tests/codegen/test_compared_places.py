"""Positions along the lanes that are compared with a number that all lanes share: masks, triangles, classes."""

from __future__ import annotations

import dynascope
import pytest
import torch

LOWEST, HIGHEST = torch.iinfo(torch.int64).min, torch.iinfo(torch.int64).max
NUMBERS = torch.tensor([0, 1, 15, 16, 17, 36, 37, 38, -1, LOWEST, HIGHEST, 1 << 32, (1 << 32) + 3, -(1 << 31)])


def equal(n, x):
    return torch.where(torch.arange(x.shape[1]) == n[:, None], x, -x)


def less(n, x):
    return torch.where(n[:, None] < torch.arange(x.shape[1]), x, 0.0)


def at_most(n, x):
    return torch.where(torch.arange(x.shape[1]) <= n[:, None], x, 0.0)


def greater_from_behind(n, x):
    return torch.where(n[:, None] > torch.arange(x.shape[1]) + 3, x, 0.0)


def different(n, x):
    return x * (torch.arange(x.shape[1]) != n[:, None])


def at_least(n, x):
    return x.masked_fill(n[:, None] >= torch.arange(x.shape[1]), -1.0)


def triangle(n, x):
    return x.tril(2) + x.triu(-1).exp()


def also_a_number(n, x):
    places = torch.arange(x.shape[1])
    return torch.where(places == n[:, None], x, places * x)


PROGRAMS = [equal, less, at_most, greater_from_behind, different, at_least, triangle, also_a_number]


@pytest.mark.compiler
@pytest.mark.parametrize("columns", [37, 64, 5])
@pytest.mark.parametrize("function", PROGRAMS, ids=lambda function: function.__name__)
def test_every_number(function, columns: int) -> None:
    x = torch.randn(len(NUMBERS), columns)
    torch.testing.assert_close(dynascope.compile(function)(NUMBERS, x), function(NUMBERS, x))


@pytest.mark.compiler
def test_sixteen_lanes_of_floats() -> None:
    """A position of 64 bits would leave half of the lanes."""
    (kernel,) = dynascope.explain(equal, NUMBERS, torch.randn(len(NUMBERS), 64)).report.kernels
    assert "lane_of" in kernel.text and "I64" not in kernel.text.split("void ")[-1]
