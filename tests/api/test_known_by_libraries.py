"""Libraries that know torch.compile's modules know ours: Lightning compiles other methods of theirs, accelerate
takes wrappers off them."""

import sys

import dynascope
import pytest
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 1)

    def forward(self, x):
        return self.layer(x)

    def training_step(self, x):
        return self.layer(x).square().mean()


@pytest.fixture
def asked_for():
    """The class by which libraries know a compiled module, once torch's compiler is there."""
    from torch._dynamo import OptimizedModule

    return OptimizedModule


def test_they_are_of_the_class_that_is_asked_for(asked_for):
    """Also where the program itself imports the engine: Lightning refused to train them."""
    compiled = dynascope.compile(Model(), backend="eager")
    assert isinstance(compiled, asked_for) and isinstance(dynascope.disable(Model()), asked_for)
    assert isinstance(compiled, nn.Module) and not isinstance(compiled, Model) and not isinstance(Model(), asked_for)
    assert compiled.__class__.__name__ == type(compiled).__name__ and issubclass(compiled.__class__, type(compiled))
    assert compiled.__class__ is compiled.__class__ and not hasattr(compiled, "__len__") and compiled
    compiled.__class__ = type("Sharded", (compiled.__class__,), {})  # as fully_shard does
    x = torch.ones(3, 2)
    torch.testing.assert_close(compiled(x), compiled._orig_mod(x))
    assert isinstance(compiled, asked_for) and type(compiled).__name__ == "Sharded"


def test_who_asks_inside_of_compiled_code(asked_for):
    inside = dynascope.compile(Model(), backend="eager")

    def function(x):
        return inside(x) * (1 + isinstance(inside, asked_for)) + isinstance(inside, Model)

    x = torch.ones(3, 2)
    torch.testing.assert_close(dynascope.compile(function, fullgraph=True)(x), function(x))


def test_nobody_can_ask_where_it_is_not_loaded(monkeypatch):
    monkeypatch.delitem(sys.modules, "torch._dynamo.eval_frame", raising=False)
    compiled = dynascope.compile(Model(), backend="eager")
    assert compiled.__class__ is type(compiled)


def test_another_method_is_compiled_with_the_same_options():
    calls = []
    model = Model()
    compiled = dynascope.compile(model, backend=lambda graph, inputs: calls.append(graph) or graph)
    step = compiled.dynamo_ctx(model.training_step)
    x = torch.ones(3, 2)
    torch.testing.assert_close(step(x), model.training_step(x))
    assert len(calls) == 1


def test_another_original_takes_the_place():
    model, other = Model(), Model()
    compiled = dynascope.compile(model, backend="eager")
    x = torch.ones(3, 2)
    compiled(x)
    compiled._orig_mod = compiled._orig_mod
    assert compiled._orig_mod is model
    compiled._orig_mod = other
    torch.testing.assert_close(compiled(x), other(x))
    assert compiled.layer is other.layer and list(compiled.state_dict()) == ["_orig_mod.layer.weight", "_orig_mod.layer.bias"]
