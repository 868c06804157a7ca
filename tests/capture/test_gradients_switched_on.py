"""Gradients that are switched on where they were off: the graph is called with them on, and begins by switching them off."""


import dynascope
import pytest
import torch
from harness import recorded

WEIGHT = torch.ones(2, requires_grad=True)
X = torch.ones(2)


def plain(x):
    with torch.enable_grad():
        y = x * 3
    return y + 1, torch.is_grad_enabled()


def with_weight(x):
    with torch.enable_grad():
        y = x * WEIGHT
    return y + 1, torch.is_grad_enabled()


def of_a_new_leaf(x):
    with torch.enable_grad():
        y = torch.ones(2, dtype=float, requires_grad=True)
        z = y * 2
    return z, torch.is_grad_enabled()


def written(x):
    y = x + 1
    with torch.enable_grad():
        y.mul_(WEIGHT)
    return y, torch.is_grad_enabled()


def differentiated(x):
    with torch.enable_grad():
        y = (x * WEIGHT).square()
        (gradient,) = torch.autograd.grad(y.sum(), WEIGHT)
    return gradient + y.detach(), torch.is_grad_enabled()


def of_chosen_rows(x):
    chosen = x[x > 0] * WEIGHT.sum()
    with torch.enable_grad():
        y = x[x > 0] * WEIGHT.sum()
    return y + chosen, torch.is_grad_enabled()


FUNCTIONS = (plain, with_weight, of_a_new_leaf, written, differentiated, of_chosen_rows)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
@pytest.mark.parametrize("mode", [torch.no_grad, torch.enable_grad])
def test_as_eager(function, mode):
    call = dynascope.compile(function)
    with dynascope.expected("leaf-inside", required=False), mode():
        for _ in range(2):
            (mine, mine_mode), (theirs, theirs_mode) = call(X), function(X)
            torch.testing.assert_close(mine, theirs)
            assert (mine.requires_grad, mine.is_leaf, mine_mode) == (theirs.requires_grad, theirs.is_leaf, theirs_mode)
            assert torch.is_grad_enabled() is (mode is torch.enable_grad)


@pytest.mark.expects("print-call")
def test_a_break_under_no_grad_is_one():
    def function(x):
        with torch.no_grad():
            y = x * 2
            print("once")
            y = y + 1
        return y * 2, torch.is_grad_enabled()

    for _ in range(2):
        torch.testing.assert_close(dynascope.compile(function)(X), function(X))


class Trained(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layer = torch.nn.Linear(2, 2)

    def forward(self, x):
        with torch.no_grad():
            target = self.layer(x)
            print("once")
            target = target + 1
            self.layer.weight.mul_(0.9)
        loss = (self.layer(x) - target).square().sum()
        loss.backward()
        with torch.no_grad():
            for parameter in self.layer.parameters():
                parameter -= 0.1 * parameter.grad
                parameter.grad = None
        return loss.detach(), torch.is_grad_enabled()


@pytest.mark.expects("print-call")
@pytest.mark.parametrize("backend", ["eager", "dynascope"])
def test_what_follows_a_break_under_no_grad_is_one_graph(backend):
    mine, theirs = Trained(), Trained()
    call = dynascope.compile(mine, backend=backend)
    with recorded() as recorder:
        for _ in range(3):
            (loss, records), (expected, _) = call(X), theirs(X)
            torch.testing.assert_close(loss, expected)
            assert records and torch.is_grad_enabled()
            torch.testing.assert_close(mine.state_dict(), theirs.state_dict())
    assert len(recorder.report().graphs) == 2


@pytest.mark.expects("print-call")
def test_an_error_behind_such_a_break_leaves_the_mode_as_eager_does():
    def function(x, places):
        with torch.no_grad():
            print("once")
            y = x[places]
        return y * WEIGHT.sum()

    call = dynascope.compile(function)
    torch.testing.assert_close(call(X, torch.tensor([1])), function(X, torch.tensor([1])))
    for each in (call, function):
        with pytest.raises(IndexError):
            each(X, torch.tensor([5]))
        assert torch.is_grad_enabled()


@pytest.mark.parametrize("backend", ["aot_eager", "dynascope", "eager"])
def test_other_backends_record_too(backend):
    call = dynascope.compile(with_weight, backend=backend, fullgraph=True)
    with torch.no_grad():
        mine, is_on = call(X)
        assert not mine.requires_grad and not is_on

    def left_on(x):
        with torch.enable_grad():
            return x * WEIGHT

    with torch.no_grad():
        result = dynascope.compile(left_on, backend=backend, fullgraph=True)(X)
    assert torch.equal(torch.autograd.grad(result.sum(), WEIGHT)[0], X)


def test_types_of_python_are_dtypes():
    def function(x):
        return torch.zeros(2, dtype=int), x.to(bool), torch.tensor(1, dtype=float), x.to(float)

    for mine, theirs in zip(dynascope.compile(function, fullgraph=True)(X), function(X), strict=True):
        assert mine.dtype is theirs.dtype
        torch.testing.assert_close(mine, theirs)


def left_off(x):
    y = x * WEIGHT
    y.exp().sum().backward()
    torch.set_grad_enabled(False)
    return y


def broken_off(x):
    y = x * WEIGHT
    y.exp().sum().backward()
    with torch.no_grad():
        y.grad = None
    return torch.autograd.grad((y * 3).sum(), y)[0] + y


@pytest.mark.parametrize("function", [left_off, broken_off], ids=lambda function: function.__name__)
def test_a_result_whose_history_was_freed_has_it_where_gradients_are_off(function):
    results = []
    with dynascope.expected("tensor-attribute", "backward-call", required=False):
        for call in (function, dynascope.compile(function, backend="eager")):
            WEIGHT.grad = None
            results.append((call(X), torch.is_grad_enabled()))
            torch.set_grad_enabled(True)
            assert results[-1][0].requires_grad
            with pytest.raises(RuntimeError, match="second time"):
                results[-1][0].sum().backward()
    WEIGHT.grad = None
    (mine, is_on), (theirs, was_on) = results
    assert torch.equal(mine, theirs) and is_on is was_on
