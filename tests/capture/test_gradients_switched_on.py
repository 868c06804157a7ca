"""Gradients that are switched on where they were off: without any to compute it is a graph like others."""

import dynascope
import pytest
import torch

WEIGHT = torch.ones(2, requires_grad=True)
X = torch.ones(2)


def plain(x):
    with torch.enable_grad():
        y = x * 3
    return y + 1, torch.is_grad_enabled()


def with_weight(x):
    with torch.enable_grad():
        y = x * WEIGHT
    return y + 1, torch.is_grad_enabled()


def of_a_new_leaf(x):
    with torch.enable_grad():
        y = torch.ones(2, dtype=float, requires_grad=True)
        z = y * 2
    return z, torch.is_grad_enabled()


def written(x):
    y = x + 1
    with torch.enable_grad():
        y.mul_(WEIGHT)
    return y, torch.is_grad_enabled()


@pytest.mark.parametrize("function", [plain, with_weight, of_a_new_leaf, written], ids=lambda function: function.__name__)
@pytest.mark.parametrize("mode", [torch.no_grad, torch.enable_grad])
def test_as_eager(function, mode):
    call = dynascope.compile(function)
    expected = ["foreign-call"] if mode is torch.no_grad and function is not plain else []
    with dynascope.expected(*expected, "leaf-inside", required=False), mode():
        for _ in range(2):
            (mine, mine_mode), (theirs, theirs_mode) = call(X), function(X)
            torch.testing.assert_close(mine, theirs)
            assert (mine.requires_grad, mine.is_leaf, mine_mode) == (theirs.requires_grad, theirs.is_leaf, theirs_mode)
            assert torch.is_grad_enabled() is (mode is torch.enable_grad)


@pytest.mark.expects("print-call")
def test_a_break_under_no_grad_is_one():
    def function(x):
        with torch.no_grad():
            y = x * 2
            print("once")
            y = y + 1
        return y * 2, torch.is_grad_enabled()

    for _ in range(2):
        torch.testing.assert_close(dynascope.compile(function)(X), function(X))


def test_types_of_python_are_dtypes():
    def function(x):
        return torch.zeros(2, dtype=int), x.to(bool), torch.tensor(1, dtype=float), x.to(float)

    for mine, theirs in zip(dynascope.compile(function, fullgraph=True)(X), function(X), strict=True):
        assert mine.dtype is theirs.dtype
        torch.testing.assert_close(mine, theirs)
