"""Results that are computed from each other: autograd finds the way from one to the other, as in eager."""

import dynascope
import pytest
import torch


def program(x, weight):
    hidden = torch.relu(x @ weight)
    return hidden, (hidden * 2).sin().sum()


def through_a_view(x, weight):
    hidden = (x @ weight).view(-1)
    return hidden, hidden.square().sum()


def beside_another(x, weight):
    """The loss reads more than what is between: that way stays."""
    first = x @ weight
    hidden, other = first.sin(), first.cos()
    return hidden, (hidden * other).sum()


def of_one_of_several(x, weight):
    left, right = (x @ weight).split(2, 1)
    return left, (left.sin() + right).exp().sum()


def written_between(x, weight):
    hidden = x @ weight
    hidden.mul_(x)
    return hidden, (hidden * weight).sum()


PROGRAMS = [program, through_a_view, beside_another, of_one_of_several, written_between]


def differentiate(x, weight, hidden, loss):
    return torch.autograd.grad(loss, [hidden, weight])


def retain(x, weight, hidden, loss):
    hidden.retain_grad()
    loss.backward()
    return hidden.grad, x.grad, weight.grad


def hook(x, weight, hidden, loss):
    hidden.register_hook(lambda gradient: gradient * 3)
    loss.backward()
    return x.grad, weight.grad


def both(x, weight, hidden, loss):
    (hidden.sum() + loss).backward()
    return x.grad, weight.grad


def detached_hook(x, weight, hidden, loss):
    """The tensor is gone, its hook is not."""
    hidden.register_hook(lambda gradient: gradient * 3)
    del hidden
    loss.backward()
    return x.grad, weight.grad


USES = [differentiate, retain, hook, both, detached_hook]


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("function", PROGRAMS)
def test_the_way_between(function, use):
    found = []
    for run in (function, dynascope.compile(function, fullgraph=True)):
        torch.manual_seed(0)
        x, weight = torch.randn(4, 4, requires_grad=True), torch.randn(4, 4, requires_grad=True)
        found.append(use(x, weight, *run(x, weight)))
    torch.testing.assert_close(*found)


def test_an_input_that_is_written():
    def changed(x, weight):
        x.mul_(weight)
        return (x * weight.sin()).sum()

    found = []
    for function in (changed, dynascope.compile(changed, fullgraph=True)):
        leaf, weight = torch.linspace(0, 1, 6, requires_grad=True), torch.linspace(1, 2, 6, requires_grad=True)
        x = leaf * 1
        loss = function(x, weight)
        found.append((x.detach().clone(), *torch.autograd.grad(loss, [x, leaf, weight])))
    torch.testing.assert_close(*found)


def test_sizes_that_vary():
    compiled = dynascope.compile(program, fullgraph=True, dynamic=True)
    for rows in (3, 5, 9):
        found = []
        for function in (program, compiled):
            x, weight = torch.ones(rows, 4, requires_grad=True), torch.full((4, 4), 0.5, requires_grad=True)
            found.append(retain(x, weight, *function(x, weight)))
        torch.testing.assert_close(*found)


def test_results_that_share_an_input_stay_one_graph():
    def apart(x, weight):
        first = x @ weight
        return first.sin(), first.cos().sum()

    x, weight = torch.ones(4, 4, requires_grad=True), torch.ones(4, 4, requires_grad=True)
    ours, others = dynascope.compile(apart)(x, weight)
    assert ours.grad_fn is others.grad_fn
    ours, others = dynascope.compile(program)(x, weight)
    assert ours.grad_fn is not others.grad_fn


def test_nothing_is_cut_without_gradients():
    report = dynascope.explain(program)(torch.ones(4, 4), torch.ones(4, 4))
    assert len(report.graphs) == 1
