"""`.grad` read and written in compiled code, optimizers and `zero_grad` included: beside eager, call after call."""

import dynascope
import pytest
import torch
from harness import compiled
from torch import nn
from torch.nn import functional as F

X = torch.linspace(-1, 1, 12).reshape(3, 4)
OPTIMIZERS = {
    "SGD": lambda p: torch.optim.SGD(p, 0.1),
    "momentum": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
    "RMSprop": lambda p: torch.optim.RMSprop(p, 0.01),
    "Adagrad": lambda p: torch.optim.Adagrad(p, 0.1),
    "Adam": lambda p: torch.optim.Adam(p, 0.1),
    "AdamW for each": lambda p: torch.optim.AdamW(p, 0.1, foreach=True),
}


def play(make, transform, rounds=4):
    torch.manual_seed(0)
    program, look = make()
    function = transform(program)
    seen = []
    for at in range(rounds):
        seen += [function(X * (at + 1)), *look()]
    return [each.detach().clone() if isinstance(each, torch.Tensor) else each for each in seen], function


def agree(make, rounds=4):
    expected, _ = play(make, lambda program: program, rounds)
    found, function = play(make, compiled, rounds)
    torch.testing.assert_close(found, expected)
    return function


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("clipped", [False, True])
def test_a_training_step(name, clipped):
    def make():
        model = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2))
        optimizer = OPTIMIZERS[name](model.parameters())
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)

        def step(x):
            optimizer.zero_grad()
            loss = F.mse_loss(model(x), torch.ones(3, 2))
            loss.backward()
            if clipped:
                nn.utils.clip_grad_norm_(model.parameters(), 0.1)
            optimizer.step()
            return loss.detach()

        def look():
            scheduler.step()
            state = [value for each in optimizer.state.values() for value in each.values()]
            return [*model.parameters(), *(p.grad for p in model.parameters()), *state]

        return step, look

    assert agree(make).compilation.codes == []


def one_parameter(program):
    def make():
        p, q = nn.Parameter(torch.ones(4)), nn.Parameter(torch.full((4,), 2.0))
        log = []

        def look():
            return [p, q, p.grad, q.grad, *log]

        return (lambda x: program(x[0], p, q, log)), look

    return make


@pytest.mark.expects("tensor-attribute")
@pytest.mark.parametrize("backend", ["eager", pytest.param("dynascope", marks=pytest.mark.compiler)])
def test_a_gradient_that_becomes_its_own_view(backend):
    """Torch takes a gradient in the shape of its tensor alone: it is written first."""

    def program(p):
        (p * p).sum().backward()
        p.grad.t_()
        return p.grad * 2

    ours, theirs = (torch.ones(2, 3, requires_grad=True) for _ in range(2))
    assert torch.equal(dynascope.compile(program, backend=backend)(ours), program(theirs))
    assert ours.grad.shape == theirs.grad.shape == (3, 2)


def given_and_read(x, p, q, log):
    p.grad = x * 2
    log.append(p.grad.sum())
    return p.grad + (q.grad if q.grad is not None else 1)


def set_to_none(x, p, q, log):
    before, p.grad = p.grad, None
    q.grad = x if before is None else before
    return x + 1, p.grad is None


def changed_in_place(x, p, q, log):
    if p.grad is None:
        p.grad = torch.zeros(4)
    p.grad.add_(x)
    log.append(p.grad.clone())
    p.grad.mul_(2)
    return x * p.grad


def kept_under_another_name(x, p, q, log):
    g = x * 3
    p.grad = g
    q.grad = g
    g.add_(1)
    return p.grad is q.grad, g


def given_back(x, p, q, log):
    p.grad = x + 1
    return p.grad


@pytest.mark.parametrize(
    "program", [given_and_read, set_to_none, changed_in_place, kept_under_another_name, given_back], ids=lambda f: f.__name__
)
def test_gradients_are_places(program):
    def normal(given):
        return [each for part in given for each in (part if isinstance(part, tuple) else (part,))]

    expected, _ = play(one_parameter(program), lambda f: f)
    found, function = play(one_parameter(program), compiled)
    torch.testing.assert_close(normal(found), normal(expected))
    assert function.compilation.codes == []


def test_it_is_the_tensor_that_was_given():
    p = nn.Parameter(torch.ones(4))
    function = compiled(given_back)
    assert function(X[0], p, p, []) is p.grad
    assert function(X[0], p, p, []) is p.grad


def test_two_parameters_that_become_one():
    def program(x, p, q):
        p.grad = x
        return 0 if q.grad is None else q.grad + 1

    function = compiled(program)
    for same in (False, True, False):
        p = nn.Parameter(torch.ones(4))
        q = p if same else nn.Parameter(torch.ones(4))
        expected, p.grad = program(X[0], p, q), None
        torch.testing.assert_close(function(X[0], p, q), expected)


def test_what_torch_refuses_for_a_gradient_it_refuses_still():
    def program(x, p):
        p.grad = x[:2]
        return x

    with pytest.raises(RuntimeError, match="size"):
        compiled(program)(X[0], nn.Parameter(torch.ones(4)))


def test_the_gradient_of_a_tensor_that_is_no_leaf():
    w = nn.Parameter(torch.ones(4))

    def program(x, y):
        return x if y.grad is None else y.grad

    function = compiled(program)
    with pytest.warns(UserWarning, match="non-leaf"):
        torch.testing.assert_close(function(X[0], w * 2), X[0])
    kept = w * 2
    kept.retain_grad()
    kept.sum().backward()
    torch.testing.assert_close(function(X[0], kept), torch.ones(4))
    torch.testing.assert_close(function(X[0], w), w.grad)


def test_a_profiler_that_runs_sees_the_names():
    def program(x):
        with torch.profiler.record_function("mine"):
            return x.sin()

    torch.testing.assert_close(compiled(program)(X), X.sin())
    assert compiled(program).compilation.codes == []
    function = dynascope.compile(program, backend="eager")
    torch.testing.assert_close(function(X), X.sin())
    with dynascope.expected("foreign-call"), torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        function(X)
    assert "mine" in [event.name for event in profiler.events()]


@pytest.mark.parametrize("backend", ["dynascope", "eager"])
@pytest.mark.may_break
def test_a_gradient_with_a_history_of_its_own(backend):
    """What a backward pass adds to it is no part of that."""

    def program(x, given):
        x.square().sum().backward()
        x.grad = given
        x.square().sum().backward()
        return given * 2

    found = []
    for function in (program, dynascope.compile(program, backend=backend)):
        x, leaf = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
        result = function(x, leaf * 3)
        result.sum().backward()
        found.append((result, leaf.grad))
    torch.testing.assert_close(*found)


@pytest.mark.expects("backward-call")
@pytest.mark.parametrize("backend", ["eager", "dynascope"])
def test_hooks_of_what_adds_to_a_gradient_are_called(backend):
    """As data parallelism puts them there, on a node that it keeps."""

    def step(layer, x):
        loss = layer(x).square().sum()
        loss.backward()
        return loss.detach()

    def play(function):
        torch.manual_seed(0)
        layer, called = nn.Linear(4, 2), []
        nodes = [weight.expand_as(weight).grad_fn.next_functions[0][0] for weight in layer.parameters()]
        nodes[0].register_hook(lambda *_: called.append(layer.weight.grad.sum().item()))
        nodes[1].register_prehook(lambda gradients: (gradients[0] * 2,))
        for _ in range(3):
            function(layer, X)
        return called, layer.weight.grad, layer.bias.grad

    torch.testing.assert_close(play(dynascope.compile(step, backend=backend)), play(step))


@pytest.mark.may_break
def test_what_adds_to_a_gradient_keeps_its_shape():
    def step(x, y):
        x.data = y.data
        x.sin().sum().backward()

    def gradient(function):
        x = torch.ones((), requires_grad=True)
        function(x, x.flatten())
        return x.grad

    torch.testing.assert_close(gradient(compiled(step)), gradient(step))


@pytest.mark.skipif(not hasattr(torch.Tensor, "grad_dtype"), reason="newer versions of torch have it")
@pytest.mark.may_break
@pytest.mark.parametrize("backend", ["eager", "dynascope"])
def test_gradients_of_another_type_than_the_parameters(backend):
    def step(weight, x):
        loss = (x @ weight).float().square().sum()
        loss.backward()
        return loss.detach()

    def play(function):
        weight, seen = nn.Parameter(torch.ones(4, 2, dtype=torch.bfloat16)), []
        for kind in (torch.bfloat16, torch.float32, torch.float32, torch.bfloat16):
            if weight.grad_dtype is not kind:
                weight.grad = None
                weight.grad_dtype = kind
            seen += [function(weight, X.bfloat16()), weight.grad.clone()]
        return seen

    torch.testing.assert_close(play(dynascope.compile(step, backend=backend)), play(step))
