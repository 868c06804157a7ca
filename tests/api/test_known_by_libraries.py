"""Libraries that know torch.compile's modules know ours under `dynascope run`: Lightning compiles other methods of theirs, accelerate
takes wrappers off them."""

import types

import dynascope
import torch
from dynascope.command.interception import recognize_ours
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 1)

    def forward(self, x):
        return self.layer(x)

    def training_step(self, x):
        return self.layer(x).square().mean()


def test_they_are_of_the_class_that_is_asked_for():
    class OptimizedModule(nn.Module):
        def __init__(self, module):
            super().__init__()

    dynamo = types.ModuleType("dynamo")
    dynamo.OptimizedModule = OptimizedModule
    recognize_ours(dynamo)
    compiled = dynascope.compile(Model(), backend="eager")
    assert isinstance(compiled, dynamo.OptimizedModule) and isinstance(OptimizedModule(Model()), dynamo.OptimizedModule)
    assert isinstance(dynamo.OptimizedModule(Model()), OptimizedModule) and not isinstance(Model(), dynamo.OptimizedModule)


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
