"""A tensor is cut in parts whose sizes are numbers in another tensor: no break, eager's parts, and eager's errors."""

from __future__ import annotations

import dynascope
import pytest
import torch
from torch import nn

COUNTS = [[100, 60, 0, 240], [400, 0, 0, 0], [1, 1, 1, 397], [0, 0, 0, 400], [100, 100, 100, 100]]


def check(function, *inputs, calls=COUNTS):
    torch.manual_seed(0)
    compiled = dynascope.compile(function, fullgraph=True)
    for counts in calls:
        given = [x.detach().clone().requires_grad_(x.requires_grad) for x in inputs]
        twins = [x.detach().clone().requires_grad_(x.requires_grad) for x in inputs]
        found, wanted = compiled(*given, torch.tensor(counts)), function(*twins, torch.tensor(counts))
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)
        if any(x.requires_grad for x in inputs):
            found.square().sum().backward()
            wanted.square().sum().backward()
            for one, other in zip(given, twins, strict=True):
                torch.testing.assert_close(one.grad, other.grad, rtol=1e-5, atol=1e-6)


@pytest.mark.compiler
@pytest.mark.parametrize("cut", ["method", "function", "with_sizes", "named"])
def test_rows_of_experts(cut):
    weights = [torch.randn(4, 5) for _ in range(4)]

    def step(x, counts):
        sizes = counts.tolist()
        parts = {
            "method": lambda: x.split(sizes),
            "function": lambda: torch.split(x, sizes, 0),
            "with_sizes": lambda: x.split_with_sizes(sizes, dim=0),
            "named": lambda: torch.split(x, split_size_or_sections=sizes, dim=-2),
        }[cut]()
        return torch.cat([part @ weight for part, weight in zip(parts, weights, strict=True)])

    check(step, torch.randn(400, 4))
    check(step, torch.randn(400, 4, requires_grad=True))


@pytest.mark.compiler
def test_a_mixture_of_experts_trains():
    class Experts(nn.Module):
        def __init__(self):
            super().__init__()
            self.gate = nn.Linear(8, 4)
            self.experts = nn.ModuleList(nn.Linear(8, 8) for _ in range(4))

        def forward(self, x):
            chosen = self.gate(x).argmax(-1)
            order = chosen.argsort(stable=True)
            counts = nn.functional.one_hot(chosen, 4).sum(0)
            parts = x[order].split(counts.tolist())
            found = torch.cat([expert(part) for expert, part in zip(self.experts, parts, strict=True)])
            return torch.empty_like(found).index_copy(0, order, found) * self.gate(x).softmax(-1).amax(-1, keepdim=True)

    torch.manual_seed(0)
    ours, theirs = Experts(), Experts()
    theirs.load_state_dict(ours.state_dict())
    compiled = dynascope.compile(ours, fullgraph=True)
    for step in range(4):
        x = torch.randn(300 + 70 * (step % 2), 8)
        found, wanted = compiled(x), theirs(x)
        torch.testing.assert_close(found, wanted)
        for model, loss in ((ours, found), (theirs, wanted)):
            model.zero_grad()
            loss.square().mean().backward()
        for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
            torch.testing.assert_close(one.grad, other.grad)


@pytest.mark.compiler
def test_other_dimensions_and_sizes_that_are_known():
    def step(x, counts):
        first, second, *_ = counts.tolist()
        parts = x.split([2, 1, first, second, 397 - first - second], dim=1)
        return torch.stack([part.sum(1) for part in parts])

    check(step, torch.randn(3, 400), calls=[[100, 60], [3, 4], [200, 197]])


@pytest.mark.compiler
def test_parts_are_cut_again():
    def step(x, counts):
        halves = [part.chunk(2, dim=-1) for part in x.split(counts.tolist())]
        return torch.cat([torch.sigmoid(gate) * value for gate, value in halves])

    check(step, torch.randn(400, 8, requires_grad=True))


@pytest.mark.compiler
@pytest.mark.expects("data-dependent-value")
def test_many_parts_are_a_break():
    def step(x, counts):
        return sum(part.sum() for part in x.split(counts.tolist()))

    x, counts = torch.randn(400, 4), torch.full((40,), 10)
    torch.testing.assert_close(dynascope.compile(step)(x, counts), step(x, counts))


@pytest.mark.compiler
@pytest.mark.parametrize("counts", [[100, 60, 0, 239], [100, 60, 0, 241], [-1, 60, 101, 240]])
def test_sizes_that_do_not_fit_raise_as_in_eager(counts):
    def step(x, counts):
        return [part * 2 for part in x.split(counts.tolist())]

    compiled, x = dynascope.compile(step), torch.randn(400, 4)
    torch.testing.assert_close(compiled(x, torch.tensor(COUNTS[0])), step(x, torch.tensor(COUNTS[0])))
    with pytest.raises(RuntimeError) as eager:
        step(x, torch.tensor(counts))
    with pytest.raises(RuntimeError) as found:
        compiled(x, torch.tensor(counts))
    assert str(found.value) == str(eager.value)
