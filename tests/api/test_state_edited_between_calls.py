"""What a program edits between two calls of a compiled function, or asks of it seldom: each beside eager, call after call."""

from __future__ import annotations

import threading

import dynascope
import pytest
import torch
from torch import nn
from torch.nn.utils import parametrize

pytestmark = pytest.mark.may_break
X = torch.linspace(-1, 1, 6).reshape(3, 2)


def small_model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 1))


def threads_in_other_modes(wrap):
    function, found = wrap(lambda x: (x * 2).sin()), {}

    def run(number, mode):
        with mode:
            result = function(torch.ones(3, requires_grad=True))
        found[number] = result.requires_grad, result.is_inference(), result.detach().clone()

    modes = (torch.no_grad(), torch.enable_grad(), torch.inference_mode(), torch.enable_grad())
    threads = [threading.Thread(target=run, args=each) for each in enumerate(modes)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [found[number] for number in range(len(modes))]


def gradients_made_of_nothing(wrap):
    x, w, unused = (torch.ones(3, requires_grad=True) for _ in range(3))
    loss, _ = wrap(lambda x, w, u: ((x * w).sum(), u * 2))(x, w, unused)
    options = {"allow_unused": True}, {"materialize_grads": True}
    return [torch.autograd.grad(loss, [x, unused], retain_graph=True, **each) for each in options]


def third_derivatives_of_writes(wrap):
    def program(x):
        y = x.clone()
        y.mul_(x).add_(1)
        return (y * y).sum()

    x = torch.full((3,), 0.5, requires_grad=True)
    (first,) = torch.autograd.grad(wrap(program)(x), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x, create_graph=True)
    return first, second, torch.autograd.grad(second.sum(), x)


def hooks_of_all_modules(wrap):
    model, log = small_model(), []
    compiled = wrap(model)
    results = [compiled(X)]
    handle = nn.modules.module.register_module_forward_hook(lambda module, _, result: log.append(type(module)) or result * 2)
    try:
        results.append(compiled(X))
    finally:
        handle.remove()
    return [*results, compiled(X), log]


def parameters_in_another_order(wrap):
    class Weighted(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Parameter(torch.ones(2)), nn.Parameter(torch.full((2,), 2.0))

        def forward(self, x):
            named = enumerate(self.named_parameters(), 1)
            return [(name, x * number * parameter) for number, (name, parameter) in named]

    model = Weighted()
    compiled = wrap(model)
    results = [compiled(X)]
    replaced = model.a
    del model.a
    results.append(compiled(X))
    model.a = replaced
    return [*results, compiled(X)]


def groups_of_an_optimizer(wrap):
    a, b = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2))
    optimizer = torch.optim.AdamW([{"params": [a], "lr": 0.1}, {"params": [b], "lr": 0.2}])

    def step(x):
        optimizer.zero_grad()
        (a * b * x).sum().backward()
        optimizer.step()
        return a.detach().clone(), b.detach().clone()

    compiled, results = wrap(step), []
    first, second = optimizer.param_groups
    edits = (lambda: None, lambda: first.update(lr=0.01), lambda: second.update(weight_decay=0.5), lambda: first.update(maximize=True))
    for edit in (*edits, optimizer.param_groups.pop):
        edit()
        results.append(compiled(X))
    return results


def a_weight_computed_from_another(wrap):
    class Symmetric(nn.Module):
        def forward(self, weight):
            return weight.triu() + weight.triu(1).t()

    model = nn.Linear(2, 2, bias=False)
    with torch.no_grad():
        model.weight.copy_(torch.arange(4.0).view(2, 2))
    compiled = wrap(model)
    results = [compiled(X)]
    parametrize.register_parametrization(model, "weight", Symmetric())
    results.append(compiled(X))
    parametrize.remove_parametrizations(model, "weight")
    return [*results, compiled(X)]


def a_generator_without_gradients(wrap):
    @torch.no_grad()
    def pairs(x):
        factor = yield x * 1
        yield x * factor

    def program(x):
        generator = pairs(x)
        first, between = next(generator), x * 3
        print(end="")
        return first, between, generator.send(4), torch.is_grad_enabled()

    return wrap(program)(torch.ones(2, requires_grad=True))


def memory_given_back(wrap):
    def program(x):
        y = x * 2
        x.untyped_storage().resize_(0)
        return y

    x = torch.ones(3)
    return wrap(program)(x), x.untyped_storage().size()


PROGRAMS = (
    threads_in_other_modes,
    gradients_made_of_nothing,
    third_derivatives_of_writes,
    hooks_of_all_modules,
    parameters_in_another_order,
    groups_of_an_optimizer,
    a_weight_computed_from_another,
    a_generator_without_gradients,
    memory_given_back,
)


def facts(value):
    if isinstance(value, torch.Tensor):
        return value.dtype, value.shape, value.stride(), value.requires_grad, [round(each, 4) for each in value.flatten().tolist()]
    return [facts(each) for each in value] if isinstance(value, (list, tuple)) else value


@pytest.mark.parametrize("backend", ["eager", pytest.param("dynascope", marks=pytest.mark.compiler)])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_as_in_eager(program, backend):
    wrapped = program(lambda function: dynascope.compile(function, backend=backend))
    assert facts(wrapped) == facts(program(lambda function: function))
