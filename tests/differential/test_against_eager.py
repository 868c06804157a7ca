"""`bench/against_eager.py` notices what it is there for."""

import pathlib
import sys

import pytest
import torch

sys.path.append(str(pathlib.Path(__file__).parents[2] / "bench"))
from against_eager import check, verify


def program(x, y):
    x.add_(1)
    return x * 2, y.t(), (x * y).sum()


def differentiable(x, y):
    return x * 2, y.t(), (x * y).sum()


def of_results(change):
    return lambda function: lambda *inputs: change(*function(*inputs))


def no_write(function):
    return lambda x, y: function(x.clone(), y)


def raises(function):
    def compiled(x, y):
        raise ValueError

    return compiled


WRONG = {
    "a value": of_results(lambda a, b, c: (a + 1e-3, b, c)),
    "a type": of_results(lambda a, b, c: (a.double(), b, c)),
    "a stride": of_results(lambda a, b, c: (a.t().contiguous().t(), b, c)),
    "memory of its own": of_results(lambda a, b, c: (a, b.clone(), c)),
    "a gradient": of_results(lambda a, b, c: (a, b, c.detach() + 0 * a.sum())),
    "a number": of_results(lambda a, b, c: (a, b, 3.0)),
    "one result less": of_results(lambda a, b, c: (a, b)),
    "an input": no_write,
    "an error": raises,
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_wrong_is_noticed(wrong):
    inputs = [torch.linspace(0, 1, 9).view(3, 3), torch.linspace(1, 2, 9).view(3, 3)]
    tried = differentiable if wrong == "a gradient" else program  # autograd does not allow the write
    check(lambda function: function, tried, inputs)
    with pytest.raises(AssertionError):
        check(WRONG[wrong], tried, inputs)


def written_later(function):
    """What is returned is not the memory of the input, as a write to it shows."""
    return lambda base: [base[0] * 2, base[1].clone()]


def test_writes_to_results_are_noticed():
    def inputs():
        base = torch.linspace(0, 1, 4).view(2, 2).requires_grad_()
        return [base], [base * 1]

    def function(base):
        return [base[0] * 2, base[1]]

    verify(lambda function: function, function, inputs)
    with pytest.raises(AssertionError):
        verify(written_later, function, inputs)
