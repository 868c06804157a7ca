"""`torch.compiler.allow_in_graph`: a function that cannot be followed is run on tensors that stand for its arguments."""

import sys

import dynascope
import pytest
import torch
import torch.nn.functional as F
from dynascope import compile
from harness import graphs_of

X, W = torch.randn(3, 4), torch.randn(4, 5)
MADE = {}


@torch.compiler.allow_in_graph
def opaque(x, w, scale=2, *, way="sum"):
    """Asks for frames, which nothing that is compiled may."""
    sys._getframe()
    MADE[tuple(x.shape)] = scale
    z = F.softmax(torch.einsum("ij,jk->ik", x, w) * scale, dim=-1) * 2
    z[0] = z[0] + 1
    if way == "pair":
        return z, {"mean": x.mean(), "same": x}
    return z.sum(0) if x.shape[0] > 2 else z + torch.ones(z.shape, device=x.device)


@torch.compiler.allow_in_graph
def followed(x):
    return x * x.shape[0]


@torch.compiler.allow_in_graph
def of_outside(x):
    sys._getframe()
    return x + W.sum()


@torch.compiler.allow_in_graph
def raises(x):
    sys._getframe()
    raise ValueError("no")


def test_it_is_part_of_the_graph():
    def program(x, w):
        return opaque(x.sin(), w) * 2

    compiled, made = graphs_of(program, fullgraph=True)
    for x in (X, X, torch.randn(2, 4)):
        assert torch.equal(compiled(x, W), program(x, W))
    assert len(made) == 2
    assert "einsum" in made[0].code and MADE[(2, 4)] == 2


@pytest.mark.compiler
def test_gradients_and_several_results():
    def program(x, w):
        z, found = opaque(x, w, scale=3, way="pair")
        return z * found["mean"], found["same"] is x

    results = []
    for function in (program, compile(program, fullgraph=True)):
        x = X.clone().requires_grad_()
        z, same = function(x, W)
        z.square().sum().backward()
        results.append((z, x.grad, same))
    (z, gradient, same), (z_too, gradient_too, same_too) = results
    torch.testing.assert_close(z, z_too)
    torch.testing.assert_close(gradient, gradient_too)
    assert same is same_too is True


def test_what_can_be_followed_keeps_sizes_free():
    compiled, made = graphs_of(lambda x: followed(x) + 1, dynamic=True)
    for size in (3, 4, 5):
        assert torch.equal(compiled(torch.ones(size)), torch.full((size,), size + 1.0))
    assert len(made) == 1


def test_what_is_no_argument_and_errors_are_breaks():
    with dynascope.expected("foreign-call"):
        assert torch.equal(compile(lambda x: of_outside(x * 2))(X), X * 2 + W.sum())
    with dynascope.expected("foreign-call"), pytest.raises(ValueError, match="no"):
        compile(lambda x: raises(x * 2))(X)
