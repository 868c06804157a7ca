"""Variances of rows far from zero: the rounding of a mean is then more than that of all the rest."""

import dynascope
import pytest
import torch

FUNCTIONS = {
    "rows": lambda x: x.view(-1, 8).var(1),
    "columns": lambda x: x.view(-1, 8).var(0),
    "deviations": lambda x: x.view(-1, 100).std(1, correction=0),
    "all": lambda x: torch.var_mean(x)[0],
}


@pytest.mark.compiler
@pytest.mark.parametrize("name", FUNCTIONS)
def test_far_from_zero_it_is_as_exact_as_eager(name):
    function = FUNCTIONS[name]
    compiled = dynascope.compile(function)
    numbers = torch.randn(8000, generator=torch.Generator().manual_seed(0))
    for offset in (0.0, 1e3, 1e5, 1e6):
        x = numbers + offset
        exact = function(x.double())
        ours, eager = ((f(x) - exact).abs().max().item() for f in (compiled, function))
        assert ours <= 4 * eager + 1e-7, (offset, ours, eager)


@pytest.mark.compiler
def test_that_of_equal_elements_is_nothing_and_never_less():
    compiled = dynascope.compile(lambda x: x.std(1))
    rows = torch.rand(500, 1, generator=torch.Generator().manual_seed(0)) * 10.0 ** torch.arange(500)[:, None].remainder(9)
    found = compiled(rows.expand(-1, 33).contiguous())
    assert bool((found >= 0).all())
    assert bool((found <= 1e-5 * rows[:, 0]).all())
