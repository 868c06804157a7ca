"""Tensors that require grad and are made inside: leaves, which get gradients."""

from __future__ import annotations

import dynascope
import pytest
import torch

MADE = {
    "ones": lambda x: torch.ones(3, requires_grad=True),
    "tensor": lambda x: torch.tensor([1.0, 2.0, 3.0], requires_grad=True),
    "full": lambda x: torch.full((3,), 2.0, requires_grad=True),
    "zeros_like": lambda x: torch.zeros_like(x, requires_grad=True),
    "detached": lambda x: (x * 2).detach().requires_grad_(),
    "parameter": lambda x: torch.nn.Parameter(x.detach() + 1),
}


@pytest.mark.parametrize("backend", ["dynascope", "eager"])
@pytest.mark.parametrize("given", [True, False])
@pytest.mark.parametrize("name", MADE)
def test_a_leaf_made_inside(name, given, backend):
    make = MADE[name]

    def program(x):
        w = make(x)
        return w, (x * w).sum(), w.is_leaf, w.requires_grad

    def run(function):
        x = torch.arange(3.0, requires_grad=given)
        w, loss, *facts = function(x)
        loss.backward()
        return facts, w.is_leaf, w.grad, x.grad

    compiled = dynascope.compile(program, backend=backend)
    for _ in range(2):
        ours, theirs = run(compiled), run(program)
        assert ours[:2] == theirs[:2]
        torch.testing.assert_close(ours[2], theirs[2])
        assert (ours[3] is None) == (theirs[3] is None)


def test_a_leaf_that_is_not_returned():
    """The result requires grad though nothing that came in does."""
    compiled = dynascope.compile(lambda x: (x * torch.ones(3, requires_grad=True)).sum())
    assert compiled(torch.ones(3)).requires_grad


def test_a_leaf_made_without_gradients():
    def program(x):
        with torch.no_grad():
            return torch.ones(2, requires_grad=True), x * 2

    w, y = dynascope.compile(program)(torch.ones(2, requires_grad=True))
    assert w.requires_grad and w.is_leaf and not y.requires_grad
