"""Rows of a few elements on a processor, a row in each lane: classes' scores, points, boxes."""

from __future__ import annotations

import dynascope
import pytest
import torch

GENERATOR = torch.Generator().manual_seed(0)


def places(x):
    return x.argmax(-1), x.argmin(-1), *x.max(-1), *x.min(-1, keepdim=True)


def totals(x):
    return x.sum(-1), x.prod(-1), x.amax(-1), x.amin(-1), (x > 0).any(-1), (x > 0).all(-1), x.mean(-1)


def shares(x):
    return x.softmax(-1), x.logsumexp(-1), x.log_softmax(-1), x / x.norm(dim=-1, keepdim=True), x.var(-1, correction=0)


def rows(columns, dtype, count=137):
    x = torch.randint(-3, 4, (count, columns), generator=GENERATOR)  # many are equal
    return x if not dtype.is_floating_point else x.to(dtype) + torch.rand(count, columns, generator=GENERATOR).round().to(dtype) / 2


@pytest.mark.turns(6)
@pytest.mark.compiler
@pytest.mark.parametrize("columns", [2, 3, 5, 16, 21, 33])
def test_places(columns):
    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.int64):
        x = rows(columns, dtype)
        if dtype.is_floating_point:
            x[range(0, 137, 9), torch.arange(0, 137, 9) % columns] = torch.nan
            x[5], x[7, 0] = -torch.inf, torch.inf
            x[11] = torch.nan
        compiled = dynascope.compile(places)
        for given in (x, x.t().contiguous().t(), x[:, :2], x[::3]):
            for ours, wanted in zip(compiled(given), places(given), strict=True):
                torch.testing.assert_close(ours, wanted, rtol=0, atol=0, equal_nan=True)


@pytest.mark.turns(6)
@pytest.mark.compiler
@pytest.mark.parametrize("function", [totals, shares], ids=lambda function: function.__name__)
@pytest.mark.parametrize("columns", [1, 2, 4, 7, 12, 13])
def test_totals_and_shares(columns, function):
    for dtype in (torch.float32, torch.float64):
        x = rows(columns, dtype).requires_grad_()
        ours, wanted = dynascope.compile(function)(x), function(x)
        torch.testing.assert_close(ours, wanted, equal_nan=True)
        differentiable = [(a, b) for a, b in zip(ours, wanted, strict=True) if b.requires_grad]
        mine = torch.autograd.grad(sum(a.nan_to_num().square().sum() for a, _ in differentiable), x)
        eagers = torch.autograd.grad(sum(b.nan_to_num().square().sum() for _, b in differentiable), x)
        torch.testing.assert_close(mine, eagers, equal_nan=True, rtol=1e-4, atol=1e-4)
