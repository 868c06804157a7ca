"""A tensor that the program tells to require grad on its way, and lets go: nobody sees its gradient, and all is one graph."""

import dynascope
import pytest
import torch
from torch import nn

torch.manual_seed(0)
LAYER, HEAD = nn.Linear(3, 3), nn.Linear(3, 2)


def as_checkpointing_wants_it(x):
    hidden = x[:, None]
    hidden.requires_grad = True
    return HEAD(LAYER(hidden).relu()).sum()


def of_what_is_computed(x):
    hidden = (x * 2).detach().requires_grad_()
    return HEAD(hidden * LAYER.weight.sum()), hidden.requires_grad, hidden.is_leaf


def of_a_first_result(x):
    hidden = LAYER(x).detach()
    hidden.requires_grad_(True)
    return HEAD(hidden), LAYER(x)


def kept(x):
    hidden = x[:, None]
    hidden.requires_grad = True
    return HEAD(LAYER(hidden)).sum(), hidden


def the_only_leaf(x):
    hidden = x[:, None]
    hidden.requires_grad = True
    return (hidden * 2).sum()


def one_of_two_results(x):
    hidden = x * 1
    hidden.requires_grad_()
    return LAYER(hidden), hidden * 2


def a_view_is_kept(x):
    hidden = x * 1
    hidden.requires_grad_()
    return LAYER(hidden), hidden[0]


def hooked(x):
    seen = []
    hidden = x * 1
    hidden.requires_grad_()
    hidden.register_hook(lambda gradient: seen.append(gradient.shape))
    LAYER(hidden).sum().backward()
    LAYER.zero_grad()
    return seen


def differentiated_inside(x):
    hidden = x * 1
    hidden.requires_grad_()
    y = LAYER(hidden).square().sum()
    (gradient,) = torch.autograd.grad(y, hidden, create_graph=True)
    return gradient.sum() + y


WHOLE = [as_checkpointing_wants_it, of_what_is_computed, of_a_first_result]
OTHERS = [kept, the_only_leaf, one_of_two_results, a_view_is_kept, hooked]


def outcome(function, x):
    result = function(x)
    tensors = [each for each in torch.utils._pytree.tree_leaves(result) if isinstance(each, torch.Tensor)]
    LAYER.zero_grad()
    HEAD.zero_grad()
    leaves = [each for each in tensors if each.is_leaf and each.requires_grad]
    sum(each.sum() for each in tensors if each.requires_grad and not each.is_leaf).backward() if tensors else None
    gradients = [p.grad for p in (*LAYER.parameters(), *HEAD.parameters(), x, *leaves)]
    flags = [(each.requires_grad, each.is_leaf, each.shape) for each in tensors]
    others = [each for each in torch.utils._pytree.tree_leaves(result) if not isinstance(each, torch.Tensor)]
    return [each.detach() for each in tensors], [None if g is None else g.clone() for g in gradients], flags, others


def assert_same(function, call):
    for _ in range(2):
        x = torch.randn(4, 3)
        mine, theirs = outcome(call, x.clone()), outcome(function, x.clone())
        assert mine[2:] == theirs[2:]
        torch.testing.assert_close(mine[:2], theirs[:2])


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "dynascope"])
@pytest.mark.parametrize("function", WHOLE, ids=lambda function: function.__name__)
def test_one_graph(function, backend):
    assert_same(function, dynascope.compile(function, backend=backend, fullgraph=True))


@pytest.mark.parametrize("backend", ["eager", "dynascope"])
def test_differentiated_inside_is_one_graph(backend):
    assert_same(differentiated_inside, dynascope.compile(differentiated_inside, backend=backend, fullgraph=True))


@pytest.mark.may_break
@pytest.mark.parametrize("backend", ["eager", "dynascope"])
@pytest.mark.parametrize("function", OTHERS, ids=lambda function: function.__name__)
def test_as_eager(function, backend):
    assert_same(function, dynascope.compile(function, backend=backend))


@pytest.mark.may_break
def test_weights_that_are_frozen():
    """Then the results require grad for the leaf made inside alone."""
    for parameter in (*LAYER.parameters(), *HEAD.parameters()):
        parameter.requires_grad_(False)
    try:
        call = dynascope.compile(as_checkpointing_wants_it)
        for _ in range(2):
            mine, theirs = call(torch.ones(4, 3)), as_checkpointing_wants_it(torch.ones(4, 3))
            assert mine.requires_grad is theirs.requires_grad is True
    finally:
        for parameter in (*LAYER.parameters(), *HEAD.parameters()):
            parameter.requires_grad_(True)


def penalised(x):
    """A step as critics of Wasserstein GANs are trained."""
    mixed = (0.5 * x + 1).requires_grad_(True)
    (gradient,) = torch.autograd.grad(LAYER(mixed).square().sum(), mixed, create_graph=True)
    loss = (gradient.norm(2, dim=1) - 1).square().mean()
    LAYER.zero_grad()
    loss.backward()
    return loss


@pytest.mark.parametrize("backend", ["eager", "dynascope"])
def test_a_history_that_backward_freed_leads_to_no_leaf(backend):
    x = torch.linspace(-1, 1, 12).view(4, 3)
    found, expected = [], []
    for step, results in ((dynascope.compile(penalised, backend=backend, fullgraph=True), found), (penalised, expected)):
        loss = step(x)
        results += [loss.detach(), LAYER.weight.grad.clone()]
        with pytest.raises(RuntimeError, match="second time"):
            loss.backward()
    torch.testing.assert_close(found, expected)
