"""Samples of distributions that torch draws element by element are part of the graph, and eager's own numbers."""

import dynascope
import pytest
import torch
from torch import distributions

DRAWN = {
    "beta": lambda a: distributions.Beta(a, a + 1).sample(),
    "dirichlet": lambda a: distributions.Dirichlet(a).sample(),
    "binomial": lambda a: distributions.Binomial(7, probs=torch.sigmoid(a)).sample(),
}


@pytest.mark.parametrize("backend", ["eager", "dynascope"])
@pytest.mark.parametrize("case", DRAWN)
def test_samples_are_eager_s(case, backend):
    def f(a):
        return DRAWN[case](a) * 2 + a

    given = torch.rand(4, 3).t() + 0.5  # eager's kernels fill a contiguous tensor all the same
    results = []
    for function in (f, dynascope.compile(f, backend=backend)):
        torch.manual_seed(3)
        results.append(function(given))
    found, compiled = results
    assert compiled.stride() == found.stride()
    torch.testing.assert_close(compiled, found)


GRADUAL = {
    "gamma": lambda a: distributions.Gamma(a, a + 1).rsample(),
    "beta": lambda a: distributions.Beta(a, a + 1).rsample(),
    "dirichlet": lambda a: distributions.Dirichlet(a).rsample(),
    "student": lambda a: distributions.StudentT(a + 3, a, 1.0).rsample(),
}


@pytest.mark.parametrize("case", GRADUAL)
def test_gradients_go_through_samples(case):
    outcomes = []
    for function in (GRADUAL[case], dynascope.compile(GRADUAL[case], fullgraph=True)):
        torch.manual_seed(3)
        given = (torch.rand(4, 3, generator=torch.Generator().manual_seed(0)).t() + 0.5).requires_grad_()
        result = function(given)
        (gradient,) = torch.autograd.grad((result * torch.arange(12.0).view(3, 4)).sum(), given)
        outcomes.append((result.detach(), gradient, result.stride(), gradient.stride()))
    torch.testing.assert_close(outcomes[1][:2], outcomes[0][:2])
    assert outcomes[1][2:] == outcomes[0][2:]


def test_a_number_that_is_drawn_is_no_break():
    def mixed(x):
        lam = distributions.Beta(0.4, 0.4).sample().item()
        return lam * x + (1 - lam) * x.flip(0)

    x, results = torch.rand(4, 2), []
    for function in (mixed, dynascope.compile(mixed)):
        torch.manual_seed(0)
        results.append(function(x))
    torch.testing.assert_close(*results)
