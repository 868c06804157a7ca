"""`compile` and `disable` above a class, and `disable` of a module: what they give is still a class, still a module."""

import copy
import functools
import pickle

import dynascope
import pytest
import torch
from torch import nn

compile_whole = functools.partial(dynascope.compile, backend="eager", fullgraph=True)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.compiled = []

    def forward(self, x):
        self.compiled.append(torch.compiler.is_compiling())
        return self.linear(x)


def test_objects_of_a_compiled_class_run_compiled_each_for_itself():
    @compile_whole
    class Compiled(Layer):
        pass

    class Below(Compiled):
        def forward(self, x):
            return super().forward(x) * 2

    first, second, below = Compiled(), Compiled(), Below()
    x = torch.ones(3)
    assert torch.equal(first(x), first.linear(x))
    assert torch.equal(second(x), second.linear(x))
    assert torch.equal(below(x), below.linear(x) * 2)
    assert torch.equal(compile_whole(lambda x: first(x) + below(x))(x), first.linear(x) + below.linear(x) * 2)
    assert set(first.compiled + second.compiled + below.compiled) == {True}
    copied = copy.deepcopy(first)
    assert copied._compiled_call_impl is None and torch.equal(copied(x), first.linear(x))


def test_calls_of_a_compiled_class_without_modules():
    @compile_whole
    class Doubling:
        def __call__(self, x):
            return x * 2, torch.compiler.is_compiling()

    result, compiled = Doubling()(torch.ones(2))
    assert compiled and result.tolist() == [2, 2]
    with pytest.raises(TypeError, match="whose objects can be called"):
        dynascope.compile(int)


class PicklesItsLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = dynascope.disable(Layer())

    def forward(self, x):
        return self.layer(x.sin()).cos()


@pytest.mark.expects("disabled-function")
def test_a_module_kept_out_is_a_module():
    model = PicklesItsLayer()
    assert [name for name, _ in model.named_parameters()] == [
        "layer._orig_mod.linear.weight",
        "layer._orig_mod.linear.bias",
    ]
    x = torch.ones(3)
    assert torch.equal(dynascope.compile(model, backend="eager")(x), model.layer.linear(x.sin()).cos())
    assert model.layer.compiled == [False]
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(dynascope.compile(other, backend="eager")(x), model(x))
        assert set(other.layer.compiled) == {False} and other.layer.linear is not model.layer.linear
    model.layer.register_forward_hook(lambda module, given, result: result * 0)
    assert model(x).tolist() == [1, 1, 1]


@pytest.mark.expects("disabled-function")
def test_a_class_kept_out_is_a_class():
    @dynascope.disable
    class Outside(Layer):
        def __init__(self):
            super().__init__()
            self.compiled.append(torch.compiler.is_compiling())

    made = Outside()
    assert isinstance(made, Outside)
    x = torch.ones(3)
    assert torch.equal(dynascope.compile(lambda x: made(x.sin()), backend="eager")(x), made.linear(x.sin()))
    inside = dynascope.compile(lambda x: Outside() if x is not None else None, backend="eager")(x)
    assert set(made.compiled + inside.compiled) == {False}
