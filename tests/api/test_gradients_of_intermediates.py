"""`autograd.grad(y, h)` of what a graph made on its way, `retain_grad` and hooks, where the graph is cut into parts: autograd finds `h`."""

from __future__ import annotations

import dynascope
import pytest
import torch
from dynascope.strictness import expected

pytestmark = pytest.mark.compiler


def of_a_view(x):
    h = x.view(-1)
    y = h.exp()
    z = y.sin()
    return y, z, torch.autograd.grad(z.sum(), h, retain_graph=True, allow_unused=True)[0]


def beside_its_results(x):
    h = x[None]
    y = h * h
    z = torch.tanh(y)
    return torch.autograd.grad(y.sum(), h, retain_graph=True)[0] * z, y, z


def after_a_number(x):
    h = x * 2
    y = (h.exp() * x.sum().item()).sum()
    return torch.autograd.grad(y, h, allow_unused=True)[0]


def after_a_mask(x):
    h = x.view(-1)
    y = h.exp()
    return torch.autograd.grad(y[y > 1].sum(), [h, x], allow_unused=True)


def after_a_write(x):
    h = x * 2
    h.add_(1)
    y = h.exp()
    return torch.autograd.grad(y[y > 1].sum(), h)[0]


def of_two_layers(x):
    first = x.tanh()
    second = first * x
    y = second.exp()
    return torch.autograd.grad(y[y > 1].sum(), [first, second])


def kept(x):
    h = x * 2
    h.retain_grad()
    y = h.exp()
    y[y > 1].sum().backward()
    return h.grad, x.grad


def hooked(x):
    h = x * 2
    h.register_hook(lambda gradient: gradient * 3)
    y = h.exp()
    y[y > 1].sum().backward()
    return x.grad


def differentiated_again(x):
    h = x * 2
    y = h.exp()
    (gradient,) = torch.autograd.grad(y[y > 1].sum(), h, create_graph=True)
    return gradient, torch.autograd.grad(gradient.sum(), x)[0]


PROGRAMS = (
    of_a_view, beside_its_results, after_a_number, after_a_mask, after_a_write, of_two_layers, kept, hooked, differentiated_again,
)  # fmt: skip


def made(call):
    x = torch.linspace(-1, 1.5, 6).view(2, 3).requires_grad_()
    results = call(x)
    return [each.detach() for each in (results if isinstance(results, tuple) else (results,))]


@pytest.mark.parametrize("program", PROGRAMS)
def test_gradients_inside(program):
    with expected("backward-call", "tensor-attribute", required=False):
        torch.testing.assert_close(made(dynascope.compile(program)), made(program))


def results_of_a_mask(x):
    h = x * 2
    y = h.exp()
    return h, y, y[y > 1].sum()


def results_of_a_number(x):
    h = x.tanh()
    return h, (h * x.sum().item()).sum()


@pytest.mark.parametrize("program", [results_of_a_mask, results_of_a_number])
def test_gradients_of_its_results(program):
    """The program differentiates one result by another, behind the compiled function."""

    def call(function):
        def called(x):
            first, *_, last = function(x)
            return torch.autograd.grad(last, [first, x], retain_graph=True)

        return called

    torch.testing.assert_close(made(call(dynascope.compile(program))), made(call(program)))
