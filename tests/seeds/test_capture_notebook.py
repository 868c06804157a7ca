"""Seed 000: from bytecode to FX graphs; branches on tensors, and how many graphs each call adds."""

import dynascope
import pytest
import torch
import torch.nn.functional as F
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(128, 10)

    def forward(self, x):
        x = self.fc(x)
        x = F.relu(x)
        return x


def foo1(a: torch.tensor, b: torch.tensor):
    x = a + b
    if b.sum() < 0:
        x = x * -1
    return x


def foo2(a: torch.tensor, b: torch.tensor):
    x = a + b
    if b.sum() < 0:
        x = x * -1
    if a.sum() < 0:
        x = x * -2
    x = 2 * x
    return x


def test_backends_are_listed():
    assert {"dynascope", "eager", "inductor", "cudagraphs"} <= set(dynascope.list_backends())


def test_module_compiles_to_one_graph(optimize, backend):
    net = Net()
    compiled = optimize(net)
    assert isinstance(compiled, nn.Module)
    a = torch.randn((2, 128))
    torch.testing.assert_close(compiled(a), net(a), rtol=0, atol=0)
    assert len(backend.graphs) == 1


def test_module_with_our_kernels_gives_eager_values_and_gradients():
    net = Net()
    compiled = dynascope.compile(net)
    a = torch.randn((2, 128))
    result, expected = compiled(a), net(a)
    torch.testing.assert_close(result, expected)
    gradients = torch.autograd.grad(result.sum(), list(net.parameters()))
    torch.testing.assert_close(gradients, torch.autograd.grad(expected.sum(), list(net.parameters())))


@pytest.mark.expects("data-dependent-branch")
def test_branch_on_a_tensor_splits_in_two(optimize, backend):
    compiled = optimize(foo1)
    a, b = torch.ones((2, 3)), torch.ones((2, 3))
    torch.testing.assert_close(compiled(a, b), foo1(a, b))
    assert backend.counts == [3]
    torch.testing.assert_close(compiled(a, -b), foo1(a, -b))
    assert backend.counts == [3, 1]
    torch.testing.assert_close(compiled(a, -b), foo1(a, -b))
    torch.testing.assert_close(compiled(a, b), foo1(a, b))
    assert len(backend.graphs) == 2


@pytest.mark.expects("data-dependent-branch")
def test_four_ways_through_two_branches_make_five_graphs(optimize, backend):
    compiled = optimize(foo2)
    a, b = torch.ones((2, 3)), torch.ones((2, 3))
    graphs_after = []
    for x, y in ((a, b), (-a, b), (a, -b), (-a, -b)):
        torch.testing.assert_close(compiled(x, y), foo2(x, y))
        graphs_after.append(len(backend.graphs))
    assert graphs_after == [3, 4, 5, 5]


@pytest.mark.expects("data-dependent-branch")
def test_our_kernels_on_every_way():
    compiled = dynascope.compile(foo2)
    a, b = torch.ones((2, 3)), torch.ones((2, 3))
    for _ in range(2):
        for x, y in ((a, b), (-a, b), (a, -b), (-a, -b)):
            torch.testing.assert_close(compiled(x, y), foo2(x, y))
