"""`d.data = y` of a leaf that the program makes inside: an attack in steps is one graph."""

import dynascope
import pytest
import torch
from torch import nn

torch.manual_seed(0)
MODEL = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3))


def attack_in_steps(x, y):
    delta = torch.zeros_like(x).requires_grad_(True)
    for _ in range(3):
        nn.functional.cross_entropy(MODEL(x + delta), y).backward()
        delta.data = (delta + 0.1 * delta.grad.detach().sign()).clamp(-0.3, 0.3)
        delta.data = torch.clamp(x + delta.data, -1, 1) - x
        delta.grad.zero_()
    return delta.detach(), delta.grad


def in_one_step(x, y):
    delta = torch.full_like(x, 0.1)
    delta.requires_grad = True
    nn.functional.cross_entropy(MODEL(x + delta[: x.size(0)]), y).backward()
    delta.data = torch.clamp(delta + torch.sign(delta.grad), -0.2, 0.2)
    delta.data[: x.size(0)] = torch.max(torch.min(1 - x, delta.data[: x.size(0)]), 0 - x)
    return nn.functional.cross_entropy(MODEL(x + delta.detach()), y)


def memory_of_another(x, y):
    z = x * 2
    leaf = torch.ones_like(x, requires_grad=True)
    leaf.data = z
    z.add_(1)
    (leaf * leaf).sum().backward()
    return leaf.grad, z, leaf.detach()


def views_keep_what_they_had(x, y):
    leaf = torch.ones_like(x).requires_grad_()
    view, detached = leaf.view(-1), leaf.detach()
    leaf.data = leaf * 3
    return view.detach() + 1, detached, leaf.detach()


ONE_GRAPH = [attack_in_steps, in_one_step, memory_of_another, views_keep_what_they_had]


def differentiated_after_it(x, y):
    leaf = torch.ones_like(x).requires_grad_()
    loss = (leaf * leaf * x).sum()
    leaf.data = leaf * 3
    loss.backward()
    return leaf.grad


def asked_for_after_it(x, y):
    leaf = torch.ones_like(x).requires_grad_()
    loss = (leaf * leaf * x).sum()
    leaf.data = leaf * 3
    return torch.autograd.grad(loss, leaf, allow_unused=True)[0]


def a_result_of_what_it_was(x, y):
    leaf = torch.ones_like(x).requires_grad_()
    result = leaf * 2
    leaf.data = leaf * 3
    return result, leaf.detach()


def call(function):
    MODEL.zero_grad()
    x = torch.linspace(-1, 1, 20).view(5, 4)
    results = function(x, torch.arange(5) % 3)
    results = results if isinstance(results, tuple) else (results,)
    return [each.detach().clone() for each in (*results, x)] + [p.grad.clone() for p in MODEL.parameters() if p.grad is not None]


@pytest.mark.parametrize("backend", ["eager", "dynascope"])
@pytest.mark.parametrize("function", ONE_GRAPH)
def test_one_graph(function, backend):
    compiled, expected = dynascope.compile(function, backend=backend, fullgraph=True), call(function)
    for _ in range(2):
        assert all(torch.allclose(one, other) for one, other in zip(call(compiled), expected, strict=True))


@pytest.mark.expects("tensor-attribute")
@pytest.mark.parametrize("function", [differentiated_after_it, asked_for_after_it, a_result_of_what_it_was])
def test_what_was_computed_before_is_left_to_autograd(function):
    compiled, expected = dynascope.compile(function, backend="eager"), call(function)
    for _ in range(2):
        assert all(torch.allclose(one, other) for one, other in zip(call(compiled), expected, strict=True))
