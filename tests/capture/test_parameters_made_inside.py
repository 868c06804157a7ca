"""Parameters, buffers and modules that the program makes inside and nobody gets: part of the graph, with their gradients."""

import copy

import dynascope
import pytest
import torch
from torch import nn
from torch.nn import functional as F

X = torch.linspace(-1, 2, 8).view(2, 4)


def parameter(x):
    weight = nn.Parameter(torch.full((4,), 0.5))
    loss = (x * weight).square().sum()
    loss.backward()
    return loss.detach(), weight.grad, weight.requires_grad, weight.is_leaf


def module(x):
    layers = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.ReLU(), nn.Linear(3, 1))
    loss = layers(x).sum()
    loss.backward()
    return loss.detach(), layers[0].weight.grad, layers[1].running_mean


def trained(x):
    layer = nn.Linear(4, 1)
    optimizer = torch.optim.Adam(layer.parameters(), 0.1)
    for _ in range(3):
        optimizer.zero_grad()
        F.mse_loss(layer(x), x[:, :1]).backward()
        optimizer.step()
    return layer.weight.detach(), layer.bias.detach()


def twice_differentiated(x):
    weight = nn.Parameter(torch.ones(4))
    (slope,) = torch.autograd.grad((x * weight**3).sum(), weight, create_graph=True)
    return torch.autograd.grad(slope.sum(), weight)[0]


def classes(x):
    weight, table = nn.Parameter(torch.ones(2), requires_grad=False), nn.Buffer(torch.ones(2))
    return (
        x.sum() * weight + table,
        [type(each).__name__ for each in (weight, table, weight.data, weight * 1, weight.detach())],
        [isinstance(each, nn.Parameter) for each in (weight, table)],
        isinstance(table, nn.Buffer),
        weight.float() is weight,
    )


def frozen(x):
    first, last = nn.Linear(4, 4), nn.Linear(4, 1)
    first.requires_grad_(False)
    last(first(x)).sum().backward()
    without = first.weight.grad is None
    first.requires_grad_(True)
    last(first(x)).sum().backward()
    return first.weight.grad, last.weight.grad, without


def on_given_memory(x):
    memory = torch.zeros(4)
    weight = nn.Parameter(memory)
    with torch.no_grad():
        weight.fill_(2)
    return x * memory


def one_of_two(x):
    table, head = nn.Embedding(5, 4), nn.Linear(4, 5, bias=False)
    head.weight = table.weight
    head(table(torch.tensor([1, 2]))).sum().backward()
    return table.weight.grad, len(list(nn.ModuleList([table, head]).parameters()))


ALL = [parameter, module, trained, twice_differentiated, frozen, on_given_memory, one_of_two]


@pytest.mark.parametrize("program", ALL)
def test_they_are_part_of_one_graph(program):
    torch.manual_seed(0)
    expected = program(X)
    torch.manual_seed(0)
    torch.testing.assert_close(dynascope.compile(program, fullgraph=True)(X), expected)


def test_they_are_what_they_say():
    result, *told = dynascope.compile(classes, fullgraph=True)(X)
    expected, *by_python = classes(X)
    torch.testing.assert_close(result, expected)
    assert told == by_python


def test_gradients_lead_through_them_to_the_arguments():
    def program(x):
        return nn.Linear(4, 3)(x).relu().sum()

    compiled = dynascope.compile(program, fullgraph=True)
    gradients = []
    for function in (program, compiled):
        torch.manual_seed(0)
        x = X.clone().requires_grad_()
        function(x).backward()
        gradients.append(x.grad)
    torch.testing.assert_close(*gradients)


LAYERS = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))


def adapted(x):
    """Reptile's inner loop: steps of a copy, of which the weights are kept."""
    fast = copy.deepcopy(LAYERS)
    optimizer = torch.optim.SGD(fast.parameters(), 0.1)
    for _ in range(2):
        optimizer.zero_grad()
        fast(x).square().mean().backward()
        optimizer.step()
    return [after.detach() - before.detach() for after, before in zip(fast.parameters(), LAYERS.parameters(), strict=True)]


def test_a_copy_of_a_module_is_trained_inside():
    expected = adapted(X)
    torch.testing.assert_close(dynascope.compile(adapted, fullgraph=True)(X), expected)
    assert all(weight.grad is None for weight in LAYERS.parameters())


def given_back(x):
    weight = nn.Parameter(torch.ones(4))
    return x * 2, weight


def in_a_result(x):
    return nn.Parameter(torch.ones(4)) * x


def in_a_list(x, kept):
    kept.append(nn.Parameter(x.detach() * 2, requires_grad=False))
    return kept[-1] + 1


@pytest.mark.expects("tensor-attribute")
def test_one_that_leaves_is_made_by_python():
    found = dynascope.compile(given_back)(X)[1]
    assert type(found) is nn.Parameter
    assert found.is_leaf and found.requires_grad
    result = dynascope.compile(in_a_result)(X)
    result.sum().backward()
    assert result.requires_grad


@pytest.mark.expects("tensor-subclass")
def test_one_without_a_gradient_that_leaves():
    kept = []
    torch.testing.assert_close(dynascope.compile(in_a_list)(X, kept), X * 2 + 1)
    assert type(kept[0]) is nn.Parameter
    assert not kept[0].requires_grad
