"""`requires_grad_` of leaves, and `requires_grad = ...`: heeded inside the graph, and written after it to those from outside."""

import copy

import dynascope
import pytest
import torch
import torch.nn.functional as F
from torch import nn


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.needed = ctx.needs_input_grad
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 3


def frozen(p, q, x):
    p.requires_grad_(False)
    return (p * x).sum() + (q * x).sum(), p.requires_grad, p.is_leaf, p.grad_fn


def set_as_attribute(p, q, x):
    p.requires_grad = False
    return (p * x + q).sum(), p


def frozen_and_back(p, q, x):
    for each in (p, q):
        each.requires_grad_(False)
    y = p * x + q
    for each in (p, q):
        each.requires_grad_()
    return y, y.requires_grad, (p * y + q).sum()


def one_of_two_steps(p, q, x):
    p.requires_grad_(False)
    (p * q * x).sum().backward()
    p.requires_grad_(True)
    return x + 1


def gives_it_back(p, q, x):
    p.requires_grad_(False)
    return p, p.contiguous(), F.dropout(p, 0.0), q * 1


def views(p, q, x):
    before = p.view(-1)
    p.requires_grad_(False)
    return before, p.view(-1), p.detach(), q * 1


def already_so(p, q, x):
    p.requires_grad_()
    return (p * x * q).sum()


def thawed(p, q, x):
    r = FROZEN.requires_grad_()
    return p * 2 + q, r


def read_after_it_is_thawed(p, q, x):
    r = FROZEN.requires_grad_()
    return (p * r).sum() + q.sum()


def data_to_differentiate_by(p, q, x):
    x.requires_grad_()
    return (torch.autograd.grad((p * x).sum(), x, create_graph=True)[0] * q).sum()


def asked_before_it_is_thawed(p, q, x):
    before = FROZEN.requires_grad, FROZEN.is_leaf, FROZEN.grad is None
    FROZEN.requires_grad = True
    (FROZEN * p).sum().backward()
    return (FROZEN * q).sum(), *before, FROZEN.requires_grad, FROZEN.grad


def thawed_and_frozen_again(p, q, x):
    FROZEN.requires_grad_()
    y = FROZEN * x
    FROZEN.requires_grad_(False)
    return (y * p).sum(), FROZEN * 2


def thawed_and_written(p, q, x):
    FROZEN.requires_grad_()
    loss = (FROZEN * p).square().sum()
    loss.backward()
    with torch.no_grad():
        FROZEN.sub_(FROZEN.grad, alpha=0.1).fill_(1)
    return loss.detach(), q * 2


KEPT = {}
FROZEN = nn.Parameter(torch.ones(2), requires_grad=False)
FOLLOWED = [frozen, set_as_attribute, frozen_and_back, one_of_two_steps, gives_it_back, views, already_so, thawed]
FOLLOWED += [read_after_it_is_thawed, data_to_differentiate_by]
FOLLOWED += [asked_before_it_is_thawed, thawed_and_frozen_again, thawed_and_written]


def read_in_a_list(p, q, x):
    p.requires_grad_(False)
    return torch.stack([p, q])


def written_in_place(p, q, x):
    p.requires_grad_(False)
    p.add_(1)
    return (p * q).sum()


def differentiated_by_it(p, q, x):
    y = (p * q).sum()
    p.requires_grad_(False)
    y.backward()
    return x * 1


def own_function(p, q, x):
    p.requires_grad_(False)
    return Doubled.apply(p) + Doubled.apply(q)


def data_as_well(p, q, x):
    p.requires_grad_(False)
    p.data = x
    return p + q


def computed(p, q, x):
    y = x + 1
    y.requires_grad_()
    return (y * p * q).sum()


def made_and_returned(p, q, x):
    made = x.detach().requires_grad_()
    return made, (made * p).sum()


def made_and_kept(p, q, x):
    made = x.clone()
    made.requires_grad = True
    KEPT["loss"] = (made * 3).sum()
    return x + 1


def made_and_differentiated_by_backward(p, q, x):
    made = x.clone().requires_grad_()
    (made * p).sum().backward()
    return made.grad * 2


def gradient_of_a_gradient_returned(p, q, x):
    made = (x + 1).requires_grad_()
    gradient = torch.autograd.grad((made * p).square().sum(), made, create_graph=True)[0]
    return (gradient * q).sum()


def views_made_before(p, q, x):
    made = x.clone()
    before = made * 2, made.view(-1)
    made.requires_grad_()
    return *before, torch.autograd.grad((made * made).sum(), made)[0]


def read_before_it_is_thawed(p, q, x):
    y = FROZEN * q
    return ((FROZEN.requires_grad_() + y) * p).sum()


LEFT_TO_PYTHON = [
    read_before_it_is_thawed,
    read_in_a_list,
    written_in_place,
    differentiated_by_it,
    own_function,
    data_as_well,
    made_and_returned,
    made_and_kept,
]


def sign_of_gradient(p, q, x):
    made = x.detach().clone().requires_grad_()
    gradient = torch.autograd.grad((made * p).sin().sum(), made)[0]
    return x + gradient.sign(), made.detach(), made.requires_grad, made.is_leaf


def written_while_gradients_are_off(p, q, x):
    made = torch.zeros_like(x)
    made.requires_grad = True
    for _ in range(2):
        gradient = torch.autograd.grad(((made + x) * q).sum(), made)[0]
        with torch.no_grad():
            made += gradient * 0.5
    return made.detach() + x


def told_while_gradients_are_off(p, q, x):
    with torch.no_grad():
        made = x.clone().requires_grad_()
        unrecorded = made * 2
    return torch.autograd.grad((made * p).sum(), made)[0], unrecorded, unrecorded.requires_grad


def view_of_what_is_written_later(p, q, x):
    made = x.clone()
    part = made[1:]
    part.requires_grad_()
    gradient = torch.autograd.grad((part * part).sum(), part)[0]
    made.mul_(2)
    return made + 1, gradient * 1


def filled_before(p, q, x):
    made = torch.empty_like(x).fill_(0.5)
    made.requires_grad_()
    return torch.autograd.grad((made * x).square().sum(), made)[0] * 1


def known_numbers(p, q, x):
    made = torch.tensor([1.0, 2.0])
    made.requires_grad_()
    return torch.autograd.grad((made * made * x).sum(), made)[0] * 1


MADE_INSIDE = [
    sign_of_gradient,
    written_while_gradients_are_off,
    told_while_gradients_are_off,
    view_of_what_is_written_later,
    known_numbers,
    filled_before,
    made_and_differentiated_by_backward,
    computed,
    gradient_of_a_gradient_returned,
]


def arguments():
    p, q = nn.Parameter(torch.tensor([1.0, 2.0])), nn.Parameter(torch.tensor([3.0, 4.0]))
    return p, q, torch.tensor([5.0, 6.0])


def everything(function):
    """All that a call leaves, after each of two calls and a backward pass through what requires grad."""
    given = arguments()
    FROZEN.requires_grad_(False)
    FROZEN.grad = None
    said = []
    for _ in range(2):
        results = function(*given)
        results = results if isinstance(results, tuple) else (results,)
        for result in results:
            if isinstance(result, torch.Tensor) and result.grad_fn is not None:
                result.sum().backward(retain_graph=True)
        said.append([described(each, given) for each in (*results, *given)])
    return said


def described(value, given):
    if not isinstance(value, torch.Tensor):
        return value
    place = next((at for at, each in enumerate(given) if each is value), None)
    grad = value.grad.tolist() if value.is_leaf and value.grad is not None else None
    return type(value), place, value.tolist(), value.requires_grad, value.is_leaf, value._version, grad, value._is_view()


@pytest.mark.parametrize("backend", ["eager", "dynascope"])
@pytest.mark.parametrize("function", [*FOLLOWED, *MADE_INSIDE])
def test_a_leaf(function, backend):
    assert everything(dynascope.compile(function, backend=backend, fullgraph=True)) == everything(function)


@pytest.mark.parametrize("backend", ["eager", "dynascope"])
@pytest.mark.parametrize("function", LEFT_TO_PYTHON)
def test_what_a_graph_cannot_follow(function, backend):
    with dynascope.expected("tensor-attribute"):
        assert everything(dynascope.compile(function, backend=backend)) == everything(function)


def test_each_requirement_is_an_entry_of_its_own():
    @dynascope.compile
    def freeze(module, flag):
        for parameter in module.parameters():
            parameter.requires_grad_(flag)

    module = nn.Linear(2, 2)
    for flag in (False, False, True, True, False):
        freeze(module, flag)
        assert [each.requires_grad for each in module.parameters()] == [flag, flag]


def test_tied_parameters_are_one():
    def freeze(one, other, x):
        one.requires_grad_(False)
        return one * x + other * x

    p, q = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2))
    compiled = dynascope.compile(freeze)
    assert compiled(p, q, torch.ones(2)).requires_grad
    assert not compiled(p.requires_grad_(), p, torch.ones(2)).requires_grad


def test_one_that_is_told_is_not_another_that_is_not():
    def thaw(one, other, x):
        one.requires_grad_()
        return one * x, other * x

    given = [nn.Parameter(torch.ones(2), requires_grad=False) for _ in range(2)]
    compiled = dynascope.compile(thaw)
    assert [each.requires_grad for each in compiled(*given, torch.ones(2))] == [True, False]
    given[0].requires_grad_(False)
    assert [each.requires_grad for each in compiled(given[0], given[0], torch.ones(2))] == [True, True]
    assert [each.requires_grad for each in compiled(given[1], given[1], torch.ones(2))] == [True, True]


def test_where_the_graph_raises_the_program_says_whether_it_was_told():
    def raises(p, x, first):
        if first:
            p.requires_grad_()
        inverse = torch.linalg.inv(x)
        if not first:
            p.requires_grad_()
        return inverse * p

    for first in (True, False):
        p = nn.Parameter(torch.ones(2), requires_grad=False)
        with pytest.raises(RuntimeError, match="singular"):
            dynascope.compile(raises)(p, torch.zeros(2, 2), first)
        assert p.requires_grad is first


def test_adversaries_that_are_frozen_in_turn_are_one_graph():
    def train(compiled):
        torch.manual_seed(0)
        generator, critic = nn.Linear(2, 4), nn.Sequential(nn.Linear(4, 4), nn.LeakyReLU(0.2), nn.Linear(4, 1))
        optimizers = [torch.optim.Adam(each.parameters(), 1e-2) for each in (generator, critic)]

        def step(noise, real):
            generator.requires_grad_(False)
            critic.requires_grad_(True)
            optimizers[1].zero_grad()
            (F.softplus(critic(generator(noise))).mean() + F.softplus(-critic(real)).mean()).backward()
            optimizers[1].step()
            generator.requires_grad_(True)
            critic.requires_grad_(False)
            optimizers[0].zero_grad()
            loss = F.softplus(-critic(generator(noise))).mean()
            loss.backward()
            optimizers[0].step()
            return loss.detach()

        step = compiled(step)
        losses = [step(torch.randn(3, 2), torch.randn(3, 4)) for _ in range(3)]
        assert [next(each.parameters()).requires_grad for each in (generator, critic)] == [True, False]
        return [*losses, *copy.deepcopy(generator).parameters(), *copy.deepcopy(critic).parameters()]

    expected = train(lambda step: step)
    for one, other in zip(train(lambda step: dynascope.compile(step, fullgraph=True)), expected, strict=True):
        torch.testing.assert_close(one, other)


def test_integers_refuse_as_torch_does():
    def asks(x):
        x.requires_grad_()
        return x + 1

    with dynascope.expected("tensor-attribute"), pytest.raises(RuntimeError, match="floating point"):
        dynascope.compile(asks)(torch.arange(3))


def test_a_step_of_two_adversaries_is_one_graph():
    def train(compiled):
        torch.manual_seed(0)
        generator, critic = nn.Linear(2, 4), nn.Sequential(nn.Linear(4, 4), nn.LeakyReLU(0.2), nn.Linear(4, 1))
        optimizer = torch.optim.Adam(generator.parameters(), 1e-2)

        def step(noise):
            for each in critic.parameters():
                each.requires_grad_(False)
            optimizer.zero_grad()
            loss = F.softplus(-critic(generator(noise))).mean()
            loss.backward()
            optimizer.step()
            for each in critic.parameters():
                each.requires_grad_(True)
            return loss.detach()

        step = compiled(step)
        losses = [step(torch.randn(3, 2)) for _ in range(3)]
        assert all(each.grad is None and each.requires_grad for each in critic.parameters())
        return [*losses, *copy.deepcopy(generator).parameters()]

    ours = train(lambda step: dynascope.compile(step, fullgraph=True))
    for one, other in zip(ours, train(lambda step: step), strict=True):
        torch.testing.assert_close(one, other)


def test_a_hook_of_an_input_of_grad_runs():
    def differentiate(p, x):
        return torch.autograd.grad((p * p * x).sum(), p)[0]

    compiled, x = dynascope.compile(differentiate), torch.tensor([1.0, 2.0])
    p = torch.tensor([3.0, 4.0], requires_grad=True)
    assert compiled(p, x).tolist() == [6.0, 16.0]
    handle = p.register_hook(lambda gradient: gradient * 2)
    with dynascope.expected("backward-call"):
        assert compiled(p, x).tolist() == differentiate(p, x).tolist() == [12.0, 32.0]
    handle.remove()
    assert compiled(p, x).tolist() == differentiate(p, x).tolist() == [6.0, 16.0]


def test_views_made_before_are_as_in_eager():
    with dynascope.expected("leaf-inside"):
        assert everything(dynascope.compile(views_made_before)) == everything(views_made_before)


@pytest.mark.expects("tensor-attribute")
@pytest.mark.parametrize("make", [lambda: torch.ones(3, 1, requires_grad=True), lambda: torch.ones(3, 1, requires_grad=True) * 1])
def test_a_view_that_is_made_without_recording_has_a_gradient_from_there_on(make):
    """It says that it requires one before, as its base does, and has none."""

    def f(x):
        with torch.no_grad():
            view = x.unsqueeze(0)
            view.requires_grad_()
        return view

    view = dynascope.compile(f, backend="eager")(make())
    view.sum().backward()
    assert view.grad is not None and torch.equal(view.grad, torch.ones(1, 3, 1))
