"""Names that the program gives may be any that generated code uses itself."""

import dynascope
import pytest
import torch


def of_helpers(view, given, empty, empty_on, restrided, laid_out):
    total = view.t().reshape(-1) * given.sum()
    return (total @ total).exp() + (empty @ empty_on).t().sum() + (restrided * laid_out).mean()


def of_languages(double, new, this, struct, lambda_, tl):
    return ((double @ new).relu() * this).sum() + (struct + lambda_).view(-1).sin().mean() * tl


@pytest.mark.compiler
@pytest.mark.parametrize("program", [of_helpers, of_languages])
def test_names_of_inputs(program):
    found = []
    for function in (program, dynascope.compile(program, fullgraph=True)):
        torch.manual_seed(0)
        inputs = [(torch.randn(3, 3) / 5).requires_grad_() for _ in range(6)]
        result = function(*inputs).sum()
        result.backward()
        found.append((result, [each.grad for each in inputs]))
    torch.testing.assert_close(*found)


def test_a_part_that_is_given_a_view():
    """Named as the operation that made it."""

    def program(x):
        view = x.view(-1)
        return view, (view * view).mean()

    compiled = dynascope.compile(program, fullgraph=True)
    for rows in (2, 0):
        found = []
        for function in (program, compiled):
            x = torch.ones(rows, 3, requires_grad=True)
            view, mean = function(x * 1)
            mean.backward()
            found.append((view, x.grad))
        torch.testing.assert_close(*found)
