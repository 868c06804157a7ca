"""Lazy modules: the call that makes their parameters runs as it was written, and the next is one graph."""

import contextlib

import dynascope
import pytest
import torch
from dynascope import recording
from torch import nn


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.LazyConv2d(4, 3), nn.LazyBatchNorm2d(), nn.ReLU(), nn.Flatten(), nn.LazyLinear(5))


def outcomes(call, module, inputs):
    """Losses and gradients of a step with each of the inputs, and the state at the end."""
    found = []
    for x in inputs:
        loss = call(x).square().sum()
        loss.backward()
        found += [loss.detach(), *(parameter.grad.clone() for parameter in module.parameters())]
    return [*found, *module.state_dict().values()]


@contextlib.contextmanager
def recorded():
    recorder = recording.Recorder()
    before = recording.use(recorder)
    try:
        yield recorder.report
    finally:
        recording.use(before)


def reasons(report):
    return [entry.reason for function in report.functions for entry in function.entries]


@pytest.mark.parametrize("fullgraph", [False, True])
@pytest.mark.parametrize("make", [network, lambda: nn.LazyConv2d(3, 2)])
def test_one_graph_behind_the_first_call(make, fullgraph):
    inputs = torch.randn(3, 2, 3, 6, 6)
    torch.manual_seed(0)
    module = make()
    torch.manual_seed(1)
    expected = outcomes(module, module, inputs)
    torch.manual_seed(0)
    module = make()
    torch.manual_seed(1)
    call = dynascope.compile(module, backend="eager", fullgraph=fullgraph)
    with recorded() as report:
        found = outcomes(call, module, inputs)
    torch.testing.assert_close(found, expected)
    assert reasons(report()) == [None]
    assert len(report().graphs) == 1


def test_who_only_looks_at_one_is_compiled_around_it():
    module = nn.LazyLinear(3)

    def program(x):
        y = x.sin()
        return (y if type(module.weight) is nn.UninitializedParameter else -y) + 1

    call, x = dynascope.compile(program, backend="eager"), torch.ones(2)
    assert torch.equal(call(x), program(x))
    with recorded() as report, dynascope.expected("tensor-subclass"):
        assert torch.equal(call(x), program(x))
    assert len(report().graphs) == 2
    module(x)
    dynascope.compile(program, backend="eager", fullgraph=True)(x)
