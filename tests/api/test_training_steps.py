"""Whole training steps in one compiled function: forward, backward, clipping and the optimizer's step are one graph."""

import dynascope
import pytest
import torch
from dynascope import repeatable
from torch import nn
from torch.nn import functional as F

OPTIMIZERS = {
    "SGD": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9),
    "Adam": lambda p: torch.optim.Adam(p, 0.01, weight_decay=0.1),
    "Adam of one tensor at a time": lambda p: torch.optim.Adam(p, 0.01, foreach=False, amsgrad=True),
    "AdamW": lambda p: torch.optim.AdamW(p, 0.01, foreach=True),
    "RMSprop": lambda p: torch.optim.RMSprop(p, 0.01),
    "Adagrad": lambda p: torch.optim.Adagrad(p, 0.01),
}


class Perceptron(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.unused = nn.Linear(4, 8), nn.Linear(8, 3), nn.Linear(2, 2)
        self.skip = nn.Linear(4, 3)
        self.norm = nn.LayerNorm(8)

    def forward(self, x):
        return self.second(F.gelu(self.norm(self.first(x)))) + self.skip(x)


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.out = nn.Embedding(7, 4), nn.Linear(4, 7, bias=False)
        self.out.weight = self.table.weight
        self.drop = nn.Dropout(0.3)

    def forward(self, x):
        return self.out(self.drop(self.table((x[:, 0] * 3).abs().long() % 7)).relu())[:, :3]


class Image(nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution, self.norm, self.out = nn.Conv1d(1, 3, 3, padding=1), nn.BatchNorm1d(3), nn.Linear(12, 3)

    def forward(self, x):
        return self.out(self.norm(self.convolution(x[:, None])).relu().flatten(1))


MODELS = {"perceptron": Perceptron, "words": Words, "image": Image}
X, Y = torch.linspace(-1, 1, 5 * 4).view(5, 4).sin(), torch.tensor([0, 1, 2, 1, 0])


def plain(model, optimizer, x, y):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss


def clipped(model, optimizer, x, y):
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad(set_to_none=False)
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    optimizer.step()
    return loss.detach(), norm


def accumulated(model, optimizer, x, y):
    """Gradients of two calls add up, in the tensors that are there."""
    (F.cross_entropy(model(x[:2]), y[:2]) / 2).backward()
    (F.cross_entropy(model(x[2:]), y[2:]) / 2).backward()
    if len(optimizer.state) > 1:
        optimizer.step()
    return [p.grad for p in model.parameters() if p.grad is not None]


def penalised(model, optimizer, x, y):
    optimizer.zero_grad()
    x = x.clone().requires_grad_()
    outputs = model(x)
    (slope,) = torch.autograd.grad(outputs.sum(), x, create_graph=True)
    loss = F.cross_entropy(outputs, y) + slope.square().sum()
    loss.backward()
    optimizer.step()
    return loss.detach()


def adversarial(model, optimizer, x, y):
    """Two losses, one after the other, over a graph that is kept."""
    optimizer.zero_grad()
    outputs = model(x)
    F.cross_entropy(outputs, y).backward(retain_graph=True)
    outputs.square().mean().backward()
    optimizer.step()
    return outputs.detach()


def train(step, make_model, make_optimizer, compiled, **options):
    torch.manual_seed(0)
    model = make_model()
    optimizer = make_optimizer(model.parameters())

    def function(x, y):
        return step(model, optimizer, x, y)

    if compiled:
        function = dynascope.compile(function, **options)
    seen = []
    for _ in range(4):
        torch.manual_seed(1)
        seen.append(torch.utils._pytree.tree_map(lambda t: t.detach().clone(), function(X, Y)))
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    storages = {gradient.untyped_storage().data_ptr() for gradient in gradients}
    strides = [gradient.stride() for gradient in gradients]
    state = [model.state_dict(), optimizer.state_dict()["state"]]
    return [seen, [p.grad for p in model.parameters()], len(storages), strides, state]


def check(step, model, optimizer, **options):
    wanted, found = train(step, model, optimizer, False), train(step, model, optimizer, True, **options)
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-6)


@pytest.mark.turns(6)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_step_of_each_optimizer_is_one_graph(optimizer):
    check(plain, Perceptron, OPTIMIZERS[optimizer], fullgraph=True)


@pytest.mark.turns(6)
@pytest.mark.parametrize("step", [plain, clipped])
@pytest.mark.parametrize("model", MODELS)
def test_a_step_of_each_model_is_one_graph(model, step):
    check(step, MODELS[model], OPTIMIZERS["SGD"], fullgraph=True)
    check(step, MODELS[model], OPTIMIZERS["SGD"], fullgraph=True, backend="eager")


def test_two_losses_over_one_graph():
    check(adversarial, Perceptron, OPTIMIZERS["Adam"], fullgraph=True)


@pytest.mark.may_break
@pytest.mark.parametrize("step", [accumulated, penalised])
def test_steps_that_may_break_are_right(step):
    check(step, Perceptron, OPTIMIZERS["Adam"])


def test_a_gradient_that_is_there_is_added_to_in_place():
    linear = nn.Linear(3, 2)
    step = dynascope.compile(lambda x: linear(x).square().sum().backward(), fullgraph=True)
    step(torch.ones(3))
    before, values = linear.weight.grad, linear.weight.grad.clone()
    step(torch.ones(3))
    assert linear.weight.grad is before
    torch.testing.assert_close(before, values * 2)


def test_the_loss_comes_back_with_a_history_that_was_freed():
    linear = nn.Linear(3, 1)

    def step(x):
        loss = linear(x).square().sum()
        loss.backward()
        return loss

    for function in (step, dynascope.compile(step, fullgraph=True)):
        loss = function(torch.ones(3))
        assert loss.requires_grad and not loss.is_leaf
        with pytest.raises(RuntimeError, match="backward through the graph a second time"):
            loss.backward()


def test_gradients_lie_in_memory_as_their_parameters():
    weight = nn.Parameter(torch.linspace(0, 1, 6).view(2, 3).t())
    assert not weight.is_contiguous()
    dynascope.compile(lambda x: (x @ weight).square().sum().backward(), fullgraph=True)(torch.ones(2, 3))
    assert weight.grad.stride() == weight.stride()
    ones = nn.Parameter(torch.zeros(4))
    dynascope.compile(lambda: ones.sum().backward(), fullgraph=True)()
    assert ones.grad.stride() == (1,)


def test_gradients_that_are_equal_have_memory_of_their_own():
    first, second = nn.Linear(3, 2), nn.Linear(3, 2)
    dynascope.compile(lambda x: (first(x) + second(x)).sum().backward(), fullgraph=True)(torch.ones(4, 3))
    first.bias.grad.mul_(2)
    assert first.bias.grad.tolist() == [8, 8] and second.bias.grad.tolist() == [4, 4]


@pytest.mark.parametrize("place", ["register_hook", "register_post_accumulate_grad_hook"])
@pytest.mark.expects("backward-call")
def test_hooks_run(place):
    seen = []
    linear = nn.Linear(3, 2)
    step = dynascope.compile(lambda x: linear(x).sum().backward())
    getattr(linear.weight, place)(lambda *given: seen.append(len(given)))
    step(torch.ones(3))
    assert seen == [1]


@pytest.mark.expects("backward-call")
def test_a_hook_that_comes_later_runs():
    seen = []
    linear = nn.Linear(3, 2)
    step = dynascope.compile(lambda x: linear(x).sum().backward())
    step(torch.ones(3))
    linear.weight.register_hook(lambda gradient: seen.append(gradient.shape))
    step(torch.ones(3))
    assert seen == [(2, 3)]


@pytest.mark.expects("backward-call")
def test_a_history_from_outside_is_gone_through():
    w = nn.Parameter(torch.ones(3))

    def program(x):
        loss = (x * 2).sum()
        loss.backward()
        return loss.detach() + 1

    dynascope.compile(program)(w.exp())
    torch.testing.assert_close(w.grad, 2 * torch.ones(3).exp())


@pytest.mark.may_break
@pytest.mark.parametrize(
    "program",
    [
        lambda w: w.square().backward(),
        lambda w: w.detach().sum().backward(),
        lambda w: torch.autograd.grad(w.sum(), torch.ones(3, requires_grad=True)),
        lambda w: (lambda loss: (loss.backward(), loss.backward()))(w.square().sum()),
    ],
)
def test_errors_are_those_of_eager(program):
    errors = []
    for function in (program, dynascope.compile(program)):
        with pytest.raises(RuntimeError) as caught:
            function(torch.ones(3, requires_grad=True))
        errors.append(str(caught.value))
    assert errors[0] == errors[1]


INNER = {
    "of a parameter": lambda w, x: torch.autograd.grad((x @ w).square().mean(), w)[0] * 2,
    "of an intermediate": lambda w, x: (lambda h: torch.autograd.grad(h.exp().sum(), h)[0] + h)(x @ w),
    "a step of MAML": lambda w, x: x @ (w - 0.1 * torch.autograd.grad((x @ w).square().mean(), w, create_graph=True)[0]),
    "with tangents": lambda w, x: torch.autograd.grad(x @ w, w, grad_outputs=x)[0],
    "of several": lambda w, x: sum(torch.autograd.grad(((x @ w) * x).sum(), (w, x))),
    "one that is not used": lambda w, x: torch.autograd.grad(w.sum(), (w, x), allow_unused=True)[0],
}


@pytest.mark.parametrize("name", INNER)
def test_gradients_inside_are_values(name):
    seen = []
    for function in (INNER[name], dynascope.compile(INNER[name], fullgraph=True)):
        for _ in range(2):
            w = torch.linspace(0, 1, 16).view(4, 4).requires_grad_()
            x = torch.linspace(-1, 1, 16).view(4, 4).requires_grad_()
            result = function(w, x)
            if result.requires_grad:
                result.sum().backward()
            seen.append([result.detach(), result.requires_grad, result.stride(), w.grad, x.grad])
    torch.testing.assert_close(seen[2:], seen[:2])


def test_batches_of_other_sizes_are_served_by_one_graph_more():
    linear = nn.Linear(4, 3)
    optimizer = torch.optim.SGD(linear.parameters(), 0.1)

    def step(x):
        optimizer.zero_grad()
        loss = linear(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    compiled = dynascope.compile(step)
    for size in (5, 6, 7, 9):
        compiled(torch.ones(size, 4))
    assert len(dynascope.explain(compiled)(torch.ones(11, 4)).graphs) <= 3


@pytest.mark.expects("backward-call")
def test_an_input_may_be_reached_through_the_history_of_another():
    def program(a):
        t = a.sin() * a
        n = t.sum().item()
        return torch.autograd.grad(t.sum() * n, a, allow_unused=True)[0]

    a = torch.linspace(0, 1, 12, requires_grad=True).view(3, 4)
    torch.testing.assert_close(dynascope.compile(program)(a), program(a))


def test_the_gradient_of_a_leaf_by_itself():
    def program(w):
        w.backward(torch.ones(3))
        return w.grad * 2

    w = torch.ones(3, requires_grad=True)
    torch.testing.assert_close(dynascope.compile(program, fullgraph=True)(w), torch.full((3,), 2.0))


def test_a_step_that_gives_its_loss_as_a_number_keeps_no_copies_of_what_it_writes(monkeypatch):
    model, made = nn.Linear(4, 4), []
    monkeypatch.setattr(repeatable, "copy_of_elements", made.append)

    @dynascope.compile
    def step(x, target):
        model.zero_grad()
        loss = F.cross_entropy(model(x), target)
        loss.backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.sub_(parameter.grad, alpha=0.1)
        return loss.item()

    x, target = torch.randn(3, 4), torch.tensor([0, 1, 2])
    losses = [step(x, target) for _ in range(3)]
    assert losses[0] > losses[1] > losses[2] and made == []
    assert len(dynascope.explain(step)(x, target).graphs) == 1


@pytest.mark.compiler
def test_what_is_computed_of_a_freed_history_can_be_read_and_not_differentiated():
    """A renderer's step gives the image and the sum of its weights back, of what the loss freed."""
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 4)
    x = torch.randn(2, 5, 3)

    def step(x):
        h = model(x)
        weights = h[..., 3].relu() * h[..., 0].exp()
        image = (weights[..., None] * h[..., :3].sigmoid()).sum(1)
        image.square().mean().backward()
        return image, weights.sum(-1), weights[0] * 2 + 1, (h * 0).detach()

    outcomes = []
    for function in (step, dynascope.compile(step, fullgraph=True)):
        model.zero_grad()
        results, words = function(x), []
        for result in results[:3]:
            with pytest.raises(RuntimeError, match="second time") as raised:
                result.sum().backward()
            words.append(str(raised.value))
        outcomes.append((results, words, [p.grad.clone() for p in model.parameters()]))
        assert [result.requires_grad for result in results] == [True, True, True, False]
    assert outcomes[0][1] == outcomes[1][1]
    torch.testing.assert_close(outcomes[1][0], outcomes[0][0])
    torch.testing.assert_close(outcomes[1][2], outcomes[0][2])
