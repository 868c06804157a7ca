"""Reductions over values that do not differ: expanded tensors, constants, and rows reduced before."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from compiled import compiled, kernels

pytestmark = pytest.mark.compiler


def repeated(x):
    """Two columns of the loop, of which an element depends on one."""
    return x[:, :1].repeat_interleave(2, 0)


REDUCTIONS = {
    "sums": lambda x: (x.sum(-1), x.sum(0), x.sum(), x.mean(), x.prod(-1), x.var(-1)),
    "extremes": lambda x: (x.amax(-1), x.amin(0), x.argmax(-1), x.argmin(0), *x.max(1), (x > 0).any(1), (x > 0).sum(0)),
    "normalisations": lambda x: (x.softmax(-1), x.log_softmax(0), F.layer_norm(x, x.shape[-1:]), x.logsumexp(-1)),
    "constants": lambda x: ((torch.ones(4, 9) * 2).sum(1), torch.arange(5.0).unsqueeze(1).expand(5, 8).sum(1)),
    "reduced before": lambda x: (
        (x.sum(1, keepdim=True).expand(-1, 7) + 1).sum(1),
        (x - x.sum(-1, keepdim=True)).exp().sum(-1),
    ),
    "two of three": lambda x: (
        x.unsqueeze(1).expand(-1, 5, -1).sum((0, 1)),
        x.unsqueeze(1).expand(-1, 5, -1).softmax(1),
    ),
    "not the innermost": lambda x: (
        x.unsqueeze(-1).expand(-1, -1, 5).sum((1, 2)),
        x.t().unsqueeze(-1).expand(-1, -1, 5).mean(),
        x.repeat_interleave(2, 1).cos().var(1),
        (x.unsqueeze(-1).expand(-1, -1, 2) / 3).flatten(1).prod(-1),
        x.repeat_interleave(3, 1).argmax(1),
        x.bfloat16().repeat_interleave(2, 1).sum(1),
    ),
    "beside what is stored": lambda x: (
        repeated(x) - repeated(x).sum(0),
        (repeated(x) - repeated(x).mean(0)) * torch.rsqrt(torch.var(repeated(x), 0) + 1),
        repeated(x) * (repeated(x) / 3).prod(0),
        repeated(x).softmax(0),
    ),
}


@pytest.mark.parametrize("sizes", [(4, 1), (1, 6), (1, 1), (33, 1)], ids=str)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_each_element_counts(name, sizes):
    x = torch.randn(*sizes, generator=torch.Generator().manual_seed(0)).expand(
        max(sizes[0], 4), 40 if sizes[1] == 1 else sizes[1]
    )
    module, call = compiled(REDUCTIONS[name], [x])
    assert kernels(module)
    for ours, theirs in zip(call(x), REDUCTIONS[name](x), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=2e-4, atol=2e-4)
