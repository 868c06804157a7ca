"""Tensors that require grad and are made inside: leaves, which get gradients."""

from __future__ import annotations

import operator

import dynascope
import pytest
import torch

MADE = {
    "ones": lambda x: torch.ones(3, requires_grad=True),
    "tensor": lambda x: torch.tensor([1.0, 2.0, 3.0], requires_grad=True),
    "full": lambda x: torch.full((3,), 2.0, requires_grad=True),
    "zeros_like": lambda x: torch.zeros_like(x, requires_grad=True),
    "detached": lambda x: (x * 2).detach().requires_grad_(),
    "parameter": lambda x: torch.nn.Parameter(x.detach() + 1),
}


@pytest.mark.parametrize("backend", ["dynascope", "eager"])
@pytest.mark.parametrize("given", [True, False])
@pytest.mark.parametrize("name", MADE)
def test_a_leaf_made_inside(name, given, backend):
    make = MADE[name]

    def program(x):
        w = make(x)
        return w, (x * w).sum(), w.is_leaf, w.requires_grad

    def run(function):
        x = torch.arange(3.0, requires_grad=given)
        w, loss, *facts = function(x)
        loss.backward()
        return facts, w.is_leaf, w.grad, x.grad

    compiled = dynascope.compile(program, backend=backend)
    for _ in range(2):
        ours, theirs = run(compiled), run(program)
        assert ours[:2] == theirs[:2]
        torch.testing.assert_close(ours[2], theirs[2])
        assert (ours[3] is None) == (theirs[3] is None)


def test_a_leaf_that_is_not_returned():
    """The result requires grad though nothing that came in does."""
    compiled = dynascope.compile(lambda x: (x * torch.ones(3, requires_grad=True)).sum())
    assert compiled(torch.ones(3)).requires_grad


def test_a_leaf_made_without_gradients():
    def program(x):
        with torch.no_grad():
            return torch.ones(2, requires_grad=True), x * 2

    w, y = dynascope.compile(program)(torch.ones(2, requires_grad=True))
    assert w.requires_grad and w.is_leaf and not y.requires_grad


def attacked(model, x):
    """One step along the sign of the gradient, as an adversary takes it."""
    change = torch.zeros_like(x, requires_grad=True)
    model(x + change).square().mean().backward()
    return (x + 0.1 * change.grad.sign()).detach()


def attacked_in_steps(model, x):
    change = torch.zeros_like(x)
    for _ in range(3):
        change = change.detach().requires_grad_()
        model(x + change).square().mean().backward()
        change = (change + 0.1 * change.grad.sign()).clamp(-0.2, 0.2)
    return x + change.detach()


def accumulated(model, x):
    w = torch.ones(4, requires_grad=True)
    before = w.grad is None
    (model(x) * w).sum().backward()
    (x * w * 2).sum().backward()
    first = w.grad.clone()
    w.grad.zero_()
    (w * w).sum().backward()
    second, w.grad = w.grad, None
    (w * 3).sum().backward()
    return before, first, second, w.grad, w.grad is second


def by_a_tangent(model, x):
    w = torch.ones(4, requires_grad=True)
    tangent = x.sum(0)
    (w * 1).backward(tangent)
    w.grad.mul_(2)
    return w.grad, tangent


def returned(model, x):
    w = torch.ones(4, requires_grad=True)
    (x * w).sum().backward()
    return w, w.grad


def with_a_hook(model, x):
    w = torch.ones(4, requires_grad=True)
    w.register_hook(lambda gradient: gradient * 2)
    (x * w).sum().backward()
    return w.grad


STAY = [attacked, attacked_in_steps, accumulated, by_a_tangent]


@pytest.mark.compiler
@pytest.mark.parametrize("program", [*STAY, *(pytest.param(each, marks=pytest.mark.may_break) for each in (returned, with_a_hook))])
def test_backward_to_a_leaf_made_inside(program):
    """Strict mode: a break is an error. The gradient of a leaf that stays inside is no effect."""
    found = []
    for compiler in (dynascope.compile, lambda function: function):
        torch.manual_seed(0)
        model = torch.nn.Linear(4, 4)
        compiled = compiler(lambda x, model=model: program(model, x))
        results = [compiled(torch.randn(3, 4)) for _ in range(3)]
        gradients = [each.grad for result in results for each in result if program is returned and each.requires_grad]
        found.append((results, gradients, model.weight.grad))
    torch.testing.assert_close(*found, rtol=1e-5, atol=1e-6)


def penalty_of_an_interpolation(weight, real, **options):
    between = (real * 0.5).requires_grad_(True)
    scores = (between * weight).sin()
    (slope,) = torch.autograd.grad(scores, between, torch.ones_like(scores), create_graph=True, **options)
    ((slope.norm(2, dim=1) - 1) ** 2).mean().backward()
    return slope.detach()


def unused_as_zeros(weight, real):
    return torch.autograd.grad((weight * 2).sum(), [weight, OTHER], materialize_grads=True)


OTHER = torch.ones(3, requires_grad=True)
OPTIONS = [{}, dict(only_inputs=True), dict(is_grads_batched=False, retain_graph=True), dict(allow_unused=True)]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_options_of_grad_that_change_nothing(options):
    compiled = dynascope.compile(penalty_of_an_interpolation, fullgraph=True)
    found = []
    for call in (penalty_of_an_interpolation, compiled):
        weight = torch.linspace(0.5, 1, 3).requires_grad_()
        found.append((call(weight, torch.linspace(-1, 1, 12).view(4, 3), **options), weight.grad))
    torch.testing.assert_close(*found)


def test_what_was_not_used_has_a_gradient_of_zeros_where_that_is_asked():
    compiled = dynascope.compile(unused_as_zeros, fullgraph=True)
    weight, real = torch.ones(3, requires_grad=True), torch.ones(2, 3)
    torch.testing.assert_close(compiled(weight, real), unused_as_zeros(weight, real))


@pytest.mark.expects("leaf-inside")
@pytest.mark.parametrize(
    "write",
    [
        lambda x: x.add_(torch.ones(3, requires_grad=True)),
        lambda x: x[0].mul_(torch.full((), 3.0, requires_grad=True)),
        lambda x: operator.setitem(x, slice(1), torch.ones(1, requires_grad=True) * 2),
    ],
)
def test_an_input_that_is_written_gets_the_history_of_a_leaf_made_inside(write):
    def program(x):
        write(x)

    found = []
    for function in (program, dynascope.compile(program)):
        x = torch.arange(3.0)
        function(x)
        found.append((x.tolist(), x.requires_grad, x.is_leaf, len(x.grad_fn.next_functions)))
    assert found[0] == found[1]


@pytest.mark.expects("operator-failed")
def test_a_leaf_made_inside_that_an_operator_without_derivative_leads_to():
    def program(x):
        step = torch.ones(3, requires_grad=True)
        return torch.heaviside(step, step) * x

    for function in (program, dynascope.compile(program)):
        x = torch.ones((), requires_grad=True)
        result = function(x)
        with pytest.raises(RuntimeError, match="derivative for aten::heaviside is not implemented"):
            result.sum().backward()


@pytest.mark.expects("tensor-attribute")
@pytest.mark.parametrize("backend", ["dynascope", "eager"])
@pytest.mark.parametrize("written", [False, True])
def test_views_of_what_becomes_a_leaf_later(backend, written):
    """Torch has a view require grad when its base is told to, and leads to the base what was written since: here neither was so."""

    def program(x):
        weight = x.detach().clone()
        row = weight[0]
        if written:
            row.add_(1)
        weight.requires_grad_()
        return weight, row, (row * x[1]).sum()

    def run(function):
        weight, row, loss = function(torch.arange(6.0).view(2, 3))
        loss.backward()
        return weight.requires_grad, row.requires_grad, row.is_leaf, str(weight.grad)

    compiled = dynascope.compile(program, backend=backend)
    for _ in range(2):
        assert run(compiled) == run(program)
