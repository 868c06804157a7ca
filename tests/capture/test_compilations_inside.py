"""`torch.compile` and `dynascope.compile`, called in code that is compiled: what they give is read as what they were given."""

import dynascope
import pytest
import torch
from torch import nn

X = torch.linspace(-1, 2, 4)
LAYER = nn.Linear(4, 3)


def scaled(x, factor=2):
    return (x * factor).sin()


def by_torch(x):
    return torch.compile(scaled, backend="eager", mode=None)(x, factor=3) + 1


def by_us(x):
    return dynascope.compile(scaled)(x) + 1


def as_decorator(x):
    @torch.compile(backend="eager", dynamic=True)
    def inner(y):
        return y * x

    def twice(y):
        return inner(inner(y))

    return twice(x) + inner(x)


def module(x):
    return torch.compile(LAYER, backend="eager")(x) + dynascope.compile(LAYER)(x)


def method(x):
    return torch.compile(LAYER.forward, backend="eager")(x)


def compiled_again(x):
    compiled = torch.compile(scaled, backend="eager")
    return torch.compile(compiled, backend="eager")(x), callable(compiled), compiled is scaled


@pytest.mark.parametrize("program", [by_torch, by_us, as_decorator, module, method, compiled_again])
def test_what_is_compiled_inside_is_part_of_the_graph(program):
    torch.testing.assert_close(dynascope.compile(program, fullgraph=True)(X), program(X))


def test_a_function_that_torch_compiled_outside_is_read():
    outside = torch.compile(scaled, backend="eager")
    found = dynascope.compile(lambda x: outside(x) * 2, fullgraph=True)(X)
    torch.testing.assert_close(found, scaled(X) * 2)


def test_what_torch_disabled_outside_is_not_read():
    outside = torch._dynamo.disable(scaled)
    with dynascope.expected("disabled-function"):
        torch.testing.assert_close(dynascope.compile(lambda x: outside(x) * 2)(X), scaled(X) * 2)


class Lazily(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.called = nn.Linear(4, 4), None

    def inner(self, x):
        return self.layer(x).tanh()

    def forward(self, x):
        if self.called is None:
            self.called = torch.compile(self.inner, backend="eager")
        return self.called(x) * 2


def test_what_is_kept_is_made_as_the_program_says():
    model = Lazily()
    compiled = dynascope.compile(model, fullgraph=True)
    expected = model.inner(X) * 2
    for _ in range(2):
        torch.testing.assert_close(compiled(X), expected)
    assert model.called is not None
    assert model.called._torchdynamo_orig_callable == model.inner


def given_back(x):
    compiled = dynascope.compile(scaled, backend="eager")
    return compiled(x), compiled


def test_what_is_given_back_is_compiled():
    result, compiled = dynascope.compile(given_back, fullgraph=True)(X)
    assert compiled is not scaled
    assert compiled.__wrapped__ is scaled
    torch.testing.assert_close(compiled(X), result)


def state_of_module(x):
    compiled = torch.compile(LAYER, backend="eager")
    return compiled(x), list(compiled.state_dict())


@pytest.mark.expects("unsupported-attribute")
def test_what_else_it_is_asked_for_is_pythons():
    assert dynascope.compile(state_of_module)(X)[1] == ["_orig_mod.weight", "_orig_mod.bias"]


def unknown(x):
    return dynascope.compile(scaled, backend="nowhere")(x)


@pytest.mark.expects("foreign-call")
def test_settings_that_are_refused_are_refused_by_their_function():
    with pytest.raises(ValueError, match="nowhere"):
        dynascope.compile(unknown)(X)
