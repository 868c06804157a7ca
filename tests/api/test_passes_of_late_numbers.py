"""Results that lead to other histories in one graph with numbers that only its run knows: a backward pass of one of them enters and
frees what it comes from, and nothing else. Each loss goes back by itself, in every order, without `retain_graph`."""

from __future__ import annotations

import itertools

import dynascope
import pytest
import torch
from dynascope.strictness import expected

pytestmark = pytest.mark.compiler


def by_a_number(u, v):
    a, b = u.exp(), v.sin()
    count = a.detach().sum().item()
    return (a * count).sum(), (b * count).sum()


def by_masks(u, v):
    a, b = u.exp(), v.sin()
    return a[a > 1].tanh().sum(), b[b > 0].tanh().sum()


def by_masks_of_one(u, v):
    """Autograd's own operators between kernels have a node each."""
    a = u.exp() * v.sum()
    return a[a > 1].tanh().sum(), a[a < 1].sin().sum()


def by_two_numbers(u, v):
    a, b = u.exp(), v.sin()
    count = a.detach().sum().item()
    c, d = a * count, b * count
    mean = c.detach().mean().item()
    return (c * mean).tanh().sum(), (d * mean).tanh().sum()


def met(u, v):
    a, b = u.exp(), v.sin()
    count = a.sum().item()
    return (a * count).sum(), (a * b * count).sum(), (b * count).sum()


def met_before(u, v):
    a, b = u.exp(), v.sin()
    both = torch.cat([a, b])
    found = both[both > 1]
    return (a * 2).sum(), (b * found.detach().sum()).sum(), found.sum()


def with_random_numbers(u, v):
    a, b = torch.rand_like(u) * u, torch.rand_like(v) * v
    count = a.sum().item()
    return (a * count).sum(), (b * count).sum()


def with_a_write(u, v):
    u.mul_(2)
    a, b = u.exp(), v.sin()
    count = a.detach().sum().item()
    return (a * count).sum(), (b * count).sum()


def with_its_hidden_states(u, v):
    hidden = u.exp()
    count = hidden.detach().sum().item()
    return hidden, (hidden.sin() * count).sum(), (u.cos() * count).sum(), (v.exp() * count).sum()


def by_views(u, v):
    a, b = u.exp().view(2, 3), v.sin().view(3, 2)
    count = (u.detach() > 0).nonzero().shape[0]
    return a.t()[0].sum() * count, (b[1] * count).exp().sum(), a.relu(), b.relu()


PROGRAMS = (
    by_a_number, by_masks, by_masks_of_one, by_two_numbers, met, met_before, with_random_numbers, with_a_write,
    with_its_hidden_states, by_views,
)  # fmt: skip


def played(function, order):
    """What happens, in words, and the gradients that there are."""
    torch.manual_seed(0)
    x = torch.linspace(-1, 1.5, 6, dtype=torch.float64).requires_grad_()
    w = torch.linspace(0.2, 1.5, 6, dtype=torch.float64).requires_grad_()
    words, gradients = [], []

    def see(name, gradient):
        words.append((name, gradient is not None))
        if gradient is not None:
            gradients.append(gradient.clone())

    for scale in (1, 2):
        u, v = x.tanh() * scale, w.cos() * scale
        u.register_hook(lambda gradient: see("u", gradient))
        v.register_hook(lambda gradient: see("v", gradient))
        results = function(u, v)
        for at in order:
            try:
                results[at].sum().backward()
            except RuntimeError as error:
                words.append(str(error))
            see("x", x.grad)
            see("w", w.grad)
            x.grad = w.grad = None
    return words, gradients


@pytest.mark.turns(6)
@pytest.mark.parametrize("program", PROGRAMS)
def test_each_result_goes_back_by_itself(program):
    count = len(program(torch.ones(6), torch.ones(6)))
    for order in list(itertools.permutations(range(count)))[:6]:
        with expected("backward-call", "tensor-attribute", required=False):
            (words, gradients), (eagers, expected_gradients) = played(dynascope.compile(program), order), played(program, order)
        assert words == eagers
        torch.testing.assert_close(gradients, expected_gradients)


def refused_after_a_write(u, v, buffer, matrix):
    count = u.detach().sum().item()
    buffer.add_(1)
    return (u * count * buffer).sum(), (torch.linalg.inv(matrix) * v * count).sum()


def test_a_part_of_several_nodes_that_raises_has_written_once():
    def run(function):
        buffer, seen = torch.zeros(2), []
        u, v = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
        for matrix in (torch.eye(2), torch.zeros(2, 2), torch.eye(2)):
            try:
                seen += [each.detach() for each in function(u * 1, v * 1, buffer, matrix)]
            except RuntimeError:
                seen.append(torch.zeros(0))
            seen.append(buffer.clone())
        return seen

    torch.testing.assert_close(run(dynascope.compile(refused_after_a_write)), run(refused_after_a_write))
