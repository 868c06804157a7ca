"""`loss.backward()` inside, after numbers and sizes that only the run knows: autograd takes gradients between the parts of a graph."""

import copy

import dynascope
import pytest
import torch
import torch.nn.functional as F
from torch import nn

pytestmark = pytest.mark.compiler
MASK, LABELS = torch.tensor([True, False, True, True, False, True]), torch.tensor([0, 1, 2, 0, 1, 2])


def masked(model, optimizer, x):
    loss = F.cross_entropy(model(x)[MASK], LABELS[MASK])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


def cut_twice(model, optimizer, x):
    out = model(x)
    positive = out[out.sum(1) > 0]
    loss = positive.square().sum() + out[(out.sum(1) <= 0).nonzero().squeeze(1)].exp().mean()
    optimizer.zero_grad()
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss.detach(), norm, positive.detach()


def by_its_own_size(model, optimizer, x):
    out = model(x)
    loss = (out / out.abs().max().item()).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=False)
    return loss.detach()


def number_first(model, optimizer, x):
    largest = x.abs().max().item()
    loss = (model(x) * largest).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item(), largest


def twice(model, optimizer, x):
    for shift in range(2):
        out = model(x + shift)
        out[out > 0].sum().backward()
    gradients = [parameter.grad.clone() for parameter in model.parameters()]
    optimizer.step()
    optimizer.zero_grad()
    return gradients


def retained(model, optimizer, x):
    out = model(x)
    chosen = out[out > 0]
    chosen.sum().backward(retain_graph=True)
    chosen.square().sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    return chosen.detach()


def drawing(model, optimizer, x):
    out = F.dropout(model(x), 0.3)
    loss = out[out.detach() > 0].sum() + F.dropout(out, 0.5).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


def nothing_chosen(model, optimizer, x):
    out = model(x)
    chosen = out[out > 1e9]
    optimizer.zero_grad()
    (chosen.sum() + out.mean()).backward()
    optimizer.step()
    return chosen.shape[0]


def experts(model, optimizer, x):
    """Each expert gets the rows that are routed to it."""
    out, weight = torch.zeros(len(x), 3), model(x).softmax(-1)
    for at in range(3):
        rows = torch.where(weight.argmax(-1) == at)[0]
        out = out.index_add(0, rows, (x[rows, :3] + at) * weight[rows, at, None])
    loss = out.square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


def by_one_weight(model, optimizer, x):
    out = model(x).tanh()
    (gradient,) = torch.autograd.grad(out[out > 0].square().sum(), [model.weight])
    return gradient * 2


def moved_between(model, optimizer, x):
    """Sharpness-aware: weights are written between two passes, and put back."""
    out = model(x)
    out[out > 0].square().sum().backward()
    moves = [0.05 * parameter.grad / (parameter.grad.norm() + 1e-9) for parameter in model.parameters()]
    with torch.no_grad():
        for parameter, move in zip(model.parameters(), moves, strict=True):
            parameter.add_(move)
    optimizer.zero_grad()
    out = model(x)
    loss = out[out > 0].square().sum()
    loss.backward()
    with torch.no_grad():
        for parameter, move in zip(model.parameters(), moves, strict=True):
            parameter.sub_(move)
    optimizer.step()
    optimizer.zero_grad()
    return loss.item()


def gone_on(model, optimizer, x):
    """What raises comes after gradients: the region runs once more, as it was written."""
    out = model(x)
    out[out > 0].sum().backward()
    try:
        found = x[LABELS + 9]
    except IndexError:
        found = model.weight.grad.clone()
    optimizer.zero_grad()
    return found


PROGRAMS = [masked, cut_twice, by_its_own_size, number_first, twice, retained, drawing, nothing_chosen, experts, by_one_weight]
PROGRAMS += [moved_between, gone_on]


def run(program, compile, make):
    torch.manual_seed(0)
    model = nn.Linear(4, 3)
    optimizer = make(model.parameters())
    step, found = compile(lambda x: program(model, optimizer, x)), []
    for seed in range(4):
        torch.manual_seed(seed)
        found += [step(torch.randn(6, 4)), [copy.deepcopy(parameter.grad) for parameter in model.parameters()]]
    return found, list(model.parameters()), torch.rand(2), torch.is_grad_enabled()


@pytest.mark.turns(6)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_steps_are_eagers(program):
    make = lambda parameters: torch.optim.Adam(parameters, 0.1)  # noqa: E731
    ours, theirs = run(program, dynascope.compile, make), run(program, lambda function: function, make)
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


def test_a_step_is_one_graph():
    model = nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    step = dynascope.compile(lambda x: cut_twice(model, optimizer, x), fullgraph=True)
    assert len(dynascope.explain(step)(torch.randn(6, 4)).graphs) == 1


@pytest.mark.expects("backward-call")
def test_gradients_of_what_is_computed_inside_are_left_to_python():
    weight = nn.Parameter(torch.ones(3))

    def program(x):
        hidden = (x * weight).tanh()
        return torch.autograd.grad(hidden[hidden > 0].square().sum(), [hidden, weight])

    x = torch.tensor([1.0, -2.0, 3.0])
    torch.testing.assert_close(dynascope.compile(program)(x), program(x))


def test_a_number_computed_without_gradients_leaves_them_on():
    """What Python computes of numbers runs at the end of the graph: gradients stayed off after the call."""
    weight, state = nn.Parameter(torch.randn(4)), {"steps": 0}

    def program(x):
        number = (x * weight).detach().sum().item()
        with torch.no_grad():
            state["steps"] += 1
            weight.mul_(state["steps"])
        return number * 2, state["steps"] * 2

    compiled = dynascope.compile(program)
    for _ in range(4):
        compiled(torch.ones(4))
        assert torch.is_grad_enabled()


def test_what_is_written_for_nobody_has_no_gradient():
    """A part that writes what an earlier one made led gradients back to an operator that has no derivative."""

    def program(x):
        halves, turned = x // 2, x.swapaxes(0, 1)
        halves.neg_()
        return turned, x.kthvalue(1, -1).values / turned

    x = torch.tensor([[3.0, -1.0], [2.0, 5.0]], requires_grad=True)
    expected = torch.autograd.grad(sum(each.sum() for each in program(x)), x)
    torch.testing.assert_close(torch.autograd.grad(sum(each.sum() for each in dynascope.compile(program)(x)), x), expected)
