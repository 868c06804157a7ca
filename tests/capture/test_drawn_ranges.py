"""Branches that ask whether a drawn number is less than one that every draw is, or none: the draw is made, and nothing breaks."""

from __future__ import annotations

import operator

import pytest
import torch
from dynascope.strictness import expected as expected_breaks
from harness import graphs_of
from torch import nn


class Dropped(nn.Module):
    """Skips layers at random, as BART and its kin do."""

    def __init__(self, layerdrop):
        super().__init__()
        self.layers, self.layerdrop = nn.ModuleList(nn.Linear(3, 3) for _ in range(3)), layerdrop

    def forward(self, x):
        for layer in self.layers:
            if self.training:
                dropout_probability = torch.rand([])
                if dropout_probability < self.layerdrop:
                    continue
            x = layer(x)
        return nn.functional.dropout(x, 0.5)


@pytest.mark.parametrize("layerdrop", [0.0, 0, -1.0, 1.5])
def test_layers_that_are_never_or_always_skipped(layerdrop):
    model = Dropped(layerdrop)
    compiled, made = graphs_of(model, fullgraph=True)
    x = torch.randn(2, 3)
    for _ in range(2):
        torch.manual_seed(7)
        expected, after = model(x), torch.rand(1)
        torch.manual_seed(7)
        assert torch.equal(compiled(x), expected) and torch.equal(torch.rand(1), after)
    assert len(made) == 1


@pytest.mark.parametrize("number", [-0.5, 0, -0.0, 0.5, 1, 1.0, 2, float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("function", [operator.lt, operator.le, operator.gt, operator.ge, torch.lt, torch.ge])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_as_python_decides(function, number, dtype):
    def ordered(x):
        draw = torch.rand(1, dtype=dtype)
        return x * 2 if function(draw, number) else x * 3

    def turned(x):
        return x * 2 if operator.lt(number, torch.rand_like(x[:1])) else x * 3

    x = torch.ones(2)
    for each in (ordered, turned):
        with expected_breaks("data-dependent-branch", required=False):
            compiled, _ = graphs_of(each)
            for seed in range(5):
                torch.manual_seed(seed)
                expected = each(x)
                torch.manual_seed(seed)
                assert torch.equal(compiled(x), expected)


def filled(flag, x):
    flag.fill_(True)


def joined(flag, x):
    flag |= x.sum() > 0


@pytest.mark.parametrize("write", [filled, joined])
def test_what_was_written_over_a_comparison_counts(write):
    def function(x):
        flag = torch.rand([]) < 0.0
        write(flag, x)
        return x * 2 if flag else x * 3

    with expected_breaks("data-dependent-branch"):
        compiled, _ = graphs_of(function)
        assert torch.equal(compiled(torch.ones(2)), torch.ones(2) * 2)


def test_what_was_written_over_a_draw_counts():
    def function(x):
        draw = torch.rand(1)
        draw.sub_(1.0)
        return x * 2 if draw < 0.0 else x * 3

    with expected_breaks("data-dependent-branch", required=False):
        compiled, _ = graphs_of(function)
        assert torch.equal(compiled(torch.ones(2)), torch.ones(2) * 2)
