"""Differentiating a compiled region's gradients again."""

from __future__ import annotations

import gc

import dynascope
import pytest
import torch
import torch.nn.functional as F
from torch import nn


def close(ours, theirs):
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        assert (a is None) == (b is None)
        assert a is None or torch.allclose(a, b, atol=1e-5)


@pytest.mark.parametrize("activation", [nn.Tanh, nn.ReLU, nn.GELU, nn.SiLU, nn.Softplus])
@pytest.mark.parametrize("earlier", [False, True], ids=["at once", "after first derivatives"])
def test_a_gradient_penalty(activation, earlier):
    def run(wrap):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 6), activation(), nn.LayerNorm(6), nn.Linear(6, 1))
        critic, x = wrap(model), torch.randn(5, 4, requires_grad=True)
        if earlier:
            critic(x).sum().backward()
        for _ in range(2):
            (slope,) = torch.autograd.grad(critic(x).sum(), x, create_graph=True)
            ((slope.norm(2, dim=1) - 1).pow(2).mean() + critic(x).mean()).backward()
        return [x.grad, *(p.grad for p in model.parameters())]

    close(run(dynascope.compile), run(lambda model: model))


def test_a_hessian_and_third_derivatives():
    def program(x, w):
        return ((x @ w).sin() * x).sum() + x.prod()

    generator = torch.Generator().manual_seed(0)
    x, w = torch.randn(3, generator=generator), torch.randn(3, 3, generator=generator)
    compiled = dynascope.compile(program)
    ours = torch.autograd.functional.hessian(compiled, (x, w))
    close(sum(ours, ()), sum(torch.autograd.functional.hessian(program, (x, w)), ()))

    def third(function):
        y = x.clone().requires_grad_()
        value = function(y, w)
        for _ in range(3):
            (value,) = torch.autograd.grad(value.sum(), y, create_graph=True)
        return value

    assert torch.allclose(third(compiled), third(program), atol=1e-5)


def test_some_results_only_and_history_before_and_after():
    """The first derivative of the compiled part meets a loss that uses one result, inputs with a history and parameters."""

    def program(h, w, scale):
        return (h * w).tanh() * scale, (h + w).sqrt(), h.detach() * w

    def run(function, used):
        x, w = torch.linspace(0, 1, 4).requires_grad_(), torch.full((4,), 0.5, requires_grad=True)
        results = function(x * 2, w, 1.5)
        (slope,) = torch.autograd.grad(sum(results[i].pow(2).sum() for i in used), x, create_graph=True)
        return torch.autograd.grad(slope.pow(2).sum(), [x, w], allow_unused=True)

    compiled = dynascope.compile(program)
    for used in ([0], [1], [0, 1], [0, 2]):
        close(run(compiled, used), run(program, used))


def test_dropout_draws_the_same_numbers_again():
    def program(x, w):
        return F.dropout((x * w).sin(), 0.5)

    def run(function):
        torch.manual_seed(3)
        x, w = torch.linspace(0, 1, 40).requires_grad_(), torch.full((40,), 0.5, requires_grad=True)
        (slope,) = torch.autograd.grad(function(x, w).pow(2).sum(), x, create_graph=True)
        slope.sum().backward()
        return [x.grad, w.grad, torch.rand(2)]

    close(run(dynascope.compile(program)), run(program))


def test_running_statistics_are_not_counted_twice():
    def run(wrap):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Tanh())
        x = torch.randn(6, 4, requires_grad=True)
        (slope,) = torch.autograd.grad(wrap(model)(x).sum(), x, create_graph=True)
        slope.pow(2).sum().backward()
        return [x.grad, *(p.grad for p in model.parameters()), *model.buffers()]

    close(run(dynascope.compile), run(lambda model: model))


def test_views_and_shared_memory_among_results():
    def program(x):
        y = x.exp()
        return y[0], y, y.detach(), y.t()

    def run(function):
        x = torch.arange(4.0).view(2, 2).requires_grad_()
        a, b, c, d = function(x)
        (slope,) = torch.autograd.grad((a * 2).sum() + (b * c).sum() + d.pow(2).sum(), x, create_graph=True)
        return torch.autograd.grad(slope.sum(), x)

    close(run(dynascope.compile(program)), run(program))


def test_under_autocast():
    def program(x, w):
        return (x @ w).float().sin().sum()

    def run(function):
        x, w = torch.ones(4, 4, requires_grad=True), torch.full((4, 4), 0.1, requires_grad=True)
        with torch.autocast("cpu", torch.bfloat16):
            y = function(x, w)
        (slope,) = torch.autograd.grad(y, x, create_graph=True)
        return [slope.detach(), *torch.autograd.grad(slope.sum(), [x, w])]

    close(run(dynascope.compile(program)), run(program))


@pytest.mark.parametrize("large", [False, True])
def test_inputs_that_nobody_holds_are_kept_until_the_program_has_shown_what_it_wants(large):
    first, second = dynascope.compile(lambda x: x.sin() * 2), dynascope.compile(lambda h: h.sigmoid())

    def run(f, g):
        x = torch.linspace(0, 1, 1000 if large else 4).requires_grad_()
        y = g(f(x)).sum()
        gc.collect()
        (slope,) = torch.autograd.grad(y, x, create_graph=True)
        return torch.autograd.grad(slope.pow(2).sum(), x)

    close(run(first, second), run(lambda x: x.sin() * 2, lambda h: h.sigmoid()))


def test_an_input_changed_since_is_one_clear_error():
    x, w = torch.ones(3, 3, requires_grad=True), torch.ones(3)
    y = dynascope.compile(lambda x, w: torch.addmm(w, x, x).relu())(x, w)
    w.add_(1)
    with pytest.raises(RuntimeError, match=r"`w` was changed in place.*dynascope.disable"):
        torch.autograd.grad(y.sum(), x, create_graph=True)


def counted(x, total):
    total.add_(1)
    return (x * total * x).sin()


def test_what_an_input_held_before_it_was_changed_is_kept():
    """While the program may want second derivatives: until a first one, and from the next call on after it was asked for one."""

    def run(function):
        x, total = torch.full((3,), 0.5, requires_grad=True), torch.zeros(3)
        (slope,) = torch.autograd.grad(function(x, total).sum(), x, create_graph=True)
        slope.pow(2).sum().backward()
        return [x.grad, total]

    close(run(dynascope.compile(counted)), run(counted))
    compiled, x = dynascope.compile(counted), torch.ones(3, requires_grad=True)
    compiled(x, torch.zeros(3)).sum().backward()
    with pytest.raises(RuntimeError, match="`total` held before is gone; it is kept from the next call on"):
        run(compiled)
    close(run(compiled), run(counted))


def rewritten(x, w):
    return x.mul_(w).add(x[:2].sin_().sum()).pow(3).sum()


def replaced(x, w):
    return (x.sum() + w).pow(3).sum() + x.copy_(w * w).mul(w).sum()


@pytest.mark.parametrize("function", [rewritten, replaced])
@pytest.mark.parametrize("make", [torch.sin, lambda a: (torch.cat([a, a * 2]) + 0)[1:4], lambda a: a.sin().view(3, 1).squeeze(1)])
def test_through_an_input_that_was_written(function, make):
    """What it held, and the history that it had, are kept: both of what lies before the region and of the region itself."""

    def run(function):
        a, w = torch.tensor([0.3, 0.5, 0.8], requires_grad=True), torch.tensor([2.0, 0.7, 1.1], requires_grad=True)
        x = make(a)
        first = torch.autograd.grad(function(x, w), [a, w], create_graph=True)
        sum(slope.pow(2).sum() for slope in first).backward()
        return [x, *first, a.grad, w.grad]

    close(run(dynascope.compile(function)), run(function))


def test_what_cannot_be_run_again_is_one_clear_error():
    x = torch.ones(3, requires_grad=True)
    y = dynascope.compile(counted)(x, torch.zeros(200, 200, 3))
    with pytest.raises(RuntimeError, match="changes its input `total` in place"):
        torch.autograd.grad(y.sum(), x, create_graph=True)


@pytest.mark.parametrize("activation", [F.silu, F.mish, F.gelu, F.softplus, F.elu, F.hardswish, F.logsigmoid])
def test_a_gradient_penalty_taken_inside(activation):
    """One region takes the gradient, differentiates it again and writes the gradients of its weights."""
    weight = nn.Parameter(torch.linspace(-1, 1, 12).view(4, 3))

    def step(x):
        x = (x * 2).requires_grad_()
        y = activation(x @ weight)
        (slope,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        penalty = ((slope.norm(2, dim=1) - 1) ** 2).mean() + y.mean()
        penalty.backward()
        return penalty.detach()

    def run(function):
        weight.grad = None
        return function(torch.linspace(-2, 2, 20).view(5, 4)), weight.grad

    close(run(dynascope.compile(step)), run(step))
