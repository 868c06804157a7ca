"""A leaf that comes in and is a view of what requires no grad: what is taken of it without recording requires none, and which of
both kinds of leaf a graph was made for is asked before it is called."""

import dynascope
import pytest
import torch


def a_copy(leaf, x):
    with torch.no_grad():
        view = leaf[:]
    return view.clone(), x + 1


def the_view(leaf, x):
    with torch.no_grad():
        view = leaf[:1]
    return view, leaf * 2, x + 1


def what_is_told_of_it(leaf, x):
    with torch.no_grad():
        view = leaf[:]
    return view.requires_grad, x + 1 if view.requires_grad else x * 2


def a_recorded_view(leaf, x):
    return leaf[:1], leaf * x


def a_view():
    return torch.arange(6.0).view(2, 3).requires_grad_()


def a_piece():
    return torch.arange(9.0)[3:].view(2, 3).requires_grad_()


def its_own_base():
    return torch.arange(6.0).view(2, 3).clone().requires_grad_()


def seen(function, leaf):
    """What is told of the results, and the gradients that come back."""
    x = torch.linspace(-1, 1, 3).requires_grad_()
    results = function(leaf, x)
    tensors = [each for each in results if isinstance(each, torch.Tensor)]
    found = [each for each in results if not isinstance(each, torch.Tensor)]
    found += [(each.requires_grad, each.is_leaf, each._is_view(), each.tolist()) for each in tensors]
    sum(each.sum() for each in tensors if each.requires_grad).backward()
    return found + [each.grad if each.grad is None else each.grad.tolist() for each in (leaf, x)]


@pytest.mark.parametrize("backend", ["eager", "dynascope"])
@pytest.mark.parametrize("leaves", [(a_view, its_own_base, a_piece), (its_own_base, a_piece, a_view)])
@pytest.mark.parametrize("function", [a_copy, what_is_told_of_it, a_recorded_view])
def test_as_eager(function, leaves, backend):
    call = dynascope.compile(function, backend=backend, fullgraph=True)
    for make in (*leaves, *leaves):
        assert seen(call, make()) == seen(function, make())


@pytest.mark.parametrize("make", [a_view, a_piece])
@pytest.mark.parametrize("backend", ["eager", "dynascope"])
def test_a_view_given_back(make, backend):
    call = dynascope.compile(the_view, backend=backend, fullgraph=True)
    for _ in range(2):
        assert seen(call, make()) == seen(the_view, make())


@pytest.mark.expects("leaf-inside")
def test_a_view_given_back_of_its_own_base():
    """It requires grad as the leaf does and has no history, which kernels do not give: operator by operator."""
    call = dynascope.compile(the_view)
    for make in (a_view, its_own_base, a_view):
        assert seen(call, make()) == seen(the_view, make())
