"""What `torch.autograd` takes a tuple of: the values of a dict, a generator."""

import pytest
import torch
from dynascope import compile
from torch import nn
from torch.func import functional_call
from torch.nn import functional as F


def adapted(model, x, y, steps):
    """Inner steps of meta-learning: weights that gradients lead through."""
    weights = dict(model.named_parameters())
    for _ in range(steps):
        loss = F.mse_loss(functional_call(model, weights, (x,)), y)
        gradients = torch.autograd.grad(loss, weights.values(), create_graph=True)
        weights = {name: weight - 0.1 * gradient for (name, weight), gradient in zip(weights.items(), gradients, strict=True)}
    loss = F.mse_loss(functional_call(model, weights, (x,)), y)
    loss.backward()
    return loss.detach()


@pytest.mark.parametrize("steps", [1, 2])
def test_weights_that_are_the_values_of_a_dict(steps):
    compiled = compile(adapted, fullgraph=True)
    found = []
    for function in (adapted, compiled):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
        found.append([function(model, torch.randn(5, 3), torch.randn(5, 1), steps), *(each.grad for each in model.parameters())])
    torch.testing.assert_close(found[0], found[1])


def test_a_generator():
    def f(model, x):
        return torch.autograd.grad(model(x).sum(), model.parameters())

    model, x = nn.Linear(3, 2), torch.randn(4, 3)
    compiled = compile(f, fullgraph=True)
    torch.testing.assert_close(compiled(model, x), f(model, x))
