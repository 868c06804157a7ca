"""Compiled functions under function transforms and forward-mode differentiation: they run as written, with eager's answers."""

from __future__ import annotations

import dynascope
import pytest
import torch
import torch.autograd.forward_ad as forward_ad

X, W = torch.linspace(-1, 1, 12).view(3, 4), torch.linspace(0.5, 1, 4)


def program(x, w):
    return (x * w).sin().sum() + (x @ w).exp().sum()


def tangent(f):
    with forward_ad.dual_level():
        return forward_ad.unpack_dual(f(forward_ad.make_dual(X[0], X[1]), W)).tangent


def tangent_of_a_gradient(f):
    with forward_ad.dual_level():
        x = forward_ad.make_dual(X[0].clone().requires_grad_(), X[1])
        (gradient,) = torch.autograd.grad(f(x, W), x, create_graph=True)
        return forward_ad.unpack_dual(gradient).tangent.detach()


TRANSFORMS = {
    "vmap": lambda f: torch.vmap(f, (0, None))(X, W),
    "grad": lambda f: torch.func.grad(f)(X[0], W),
    "vmap of grad": lambda f: torch.vmap(torch.func.grad(f), (0, None))(X, W),
    "grad of vmap": lambda f: torch.func.grad(lambda x: torch.vmap(f, (0, None))(x, W).sum())(X),
    "jvp": lambda f: torch.func.jvp(f, (X[0], W), (X[1], W))[1],
    "vjp": lambda f: torch.func.vjp(f, X[0], W)[1](torch.tensor(2.0)),
    "jacrev": lambda f: torch.func.jacrev(f)(X[0], W),
    "jacfwd": lambda f: torch.func.jacfwd(f)(X[0], W),
    "hessian": lambda f: torch.func.hessian(f)(X[0], W),
    "functionalize": lambda f: torch.func.functionalize(f)(X[0], W),
    "dual numbers": tangent,
    "dual numbers of a gradient": tangent_of_a_gradient,
}


@pytest.mark.parametrize("compiled_first", [False, True])
@pytest.mark.parametrize("name", TRANSFORMS)
def test_answers_of_eager(name, compiled_first):
    transform, compiled = TRANSFORMS[name], dynascope.compile(program)
    for _ in range(2):
        if compiled_first:
            compiled(X[0], W)
        torch.testing.assert_close(transform(compiled), transform(program))
        torch.testing.assert_close(compiled(X[0], W), program(X[0], W))


def test_a_dual_level_inside():
    def inside(x):
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(x, torch.ones_like(x))
            return forward_ad.unpack_dual(dual.sin() * 2).tangent

    torch.testing.assert_close(dynascope.compile(inside)(X), inside(X))
