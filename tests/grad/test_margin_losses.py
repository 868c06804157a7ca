"""Margin losses with their gradients, and histograms: torch has no meta kernels of these."""

import dynascope
import pytest
import torch
from torch.nn import functional as F

ROWS = torch.tensor([[0, 1, -1, 2]] * 3)
PROGRAMS = {
    "one of several": lambda x: F.multi_margin_loss(x * 2, torch.tensor([0, 3, 2])),
    "of each": lambda x: F.multi_margin_loss(x.flip(1), torch.tensor([0, 1, 2]), p=2, weight=torch.ones(4), reduction="none"),
    "several of several": lambda x: F.multilabel_margin_loss(x.sin(), ROWS, reduction="none"),
    "turned": lambda x: F.multilabel_margin_loss(x.t().contiguous().t(), ROWS),
    "histogram": lambda x: torch.histogram(x.detach(), 4).hist * x.mean(),
    "density": lambda x: torch.histogram(x.detach(), bins=3, range=(-1.0, 1.0), density=True)[1] * x.sum(),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_they_are_eager_s(name):
    sides = []
    for function in (PROGRAMS[name], dynascope.compile(PROGRAMS[name], fullgraph=True)):
        x = torch.linspace(-1, 2, 12).view(3, 4).requires_grad_()
        result = function(x)
        result.sum().backward()
        sides.append((result, x.grad, x.grad.stride()))
    torch.testing.assert_close(sides[1], sides[0])


@pytest.mark.parametrize("backend", ["eager", "dynascope"])
@pytest.mark.parametrize("call", [lambda x: torch.histogram(x, 4), lambda x: F.multi_margin_loss(x, x[:, 0].long())])
def test_what_they_refuse_is_raised_though_nobody_reads_it(call, backend):
    def program(x):
        call(x)
        return x + 1

    x, compiled = torch.full((3, 4), float("inf")), dynascope.compile(program, backend=backend)
    x[:, 0] = 9
    for function in (program, compiled):
        with pytest.raises(RuntimeError, match="finite|range"):
            function(x)
