"""Both passes of a convolutional network on a GPU share what is saved in channels last; every other pass reads it as the graphs say.

Kernels are interpreted here, so no GPU is needed."""

from __future__ import annotations

import copy
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "loops"))

import dynascope
import pytest
import torch
import torch.nn.functional as F
from dynascope import graph_compiler
from dynascope.configuration import Options
from dynascope.loops.layouts import channels_last
from dynascope.loops.lower import lower
from dynascope.loops.lower.channels_last import convolves, turned_pair
from dynascope.loops.nodes import ExternCall
from dynascope.runtime import compile_aten
from dynascope.runtime.compile_aten import CompiledAten
from dynascope.schedule.fusion import fuse
from interpreting import run_schedule
from torch import nn


class Block(nn.Module):
    def __init__(self, channels: int = 4, stride: int = 1) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(channels, channels, 3, stride, 1, bias=False), nn.Conv2d(channels, channels, 3, 1, 1)
        # Not of one element with a stride: torch 2.13 to 2.15 write beyond the gradient of such on some processors, in eager mode.
        self.one, self.two, self.across = nn.BatchNorm2d(channels), nn.BatchNorm2d(channels), nn.Conv2d(channels, channels, stride, stride)

    def forward(self, x):
        y = self.two(self.second(F.relu(self.one(self.first(x)))))
        return F.relu(y + self.across(x))


class Network(nn.Module):
    """The loss does not need the second result."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.blocks = nn.Conv2d(3, 4, 3, padding=1), nn.Sequential(Block(), Block(stride=2))
        self.deep, self.head = nn.Conv2d(4, 4, 3, padding=1, groups=4), nn.Linear(4, 2)

    def forward(self, x):
        y = self.blocks(F.max_pool2d(F.silu(self.stem(x)), 2))
        y = self.deep(torch.cat([y, y * 0.5], 1)[:, 2:6])
        return self.head(y.mean((2, 3))), y


@pytest.fixture
def turned(monkeypatch):
    """Compiles as for a GPU, and interprets. Gives the library calls of the passes."""
    calls: list[list[ExternCall]] = []

    def compile_together(graphs, options=None, clock=None, mutations=(), is_read=True, shared=()):
        both = [graph for graph, _ in graphs]
        for graph in both:
            for node in graph.graph.nodes:
                node.meta["device"] = torch.device("cuda", 0) if node.meta.get("device") is not None else None
        layouts = turned_pair(*both, shared, Options())
        assert all(each.layouts for each in layouts) or not any(map(convolves, both))
        schedules = [fuse(lower(graph, turned=each)) for graph, each in zip(both, layouts, strict=True)]
        calls.extend([step for step in schedule.steps if isinstance(step, ExternCall)] for schedule in schedules)
        runs = [lambda *given, schedule=schedule: run_schedule(schedule, given) for schedule in schedules]
        return [CompiledAten(graph, run, None, ()) for graph, run in zip(both, runs, strict=True)]

    monkeypatch.setattr(graph_compiler, "compile_together", compile_together)
    return calls


def of_both(module: nn.Module, loss, calls: int = 2):
    """Results, gradients and buffers: ours, eager's."""
    eager = copy.deepcopy(module)
    for function, parameters in ((dynascope.compile(module), module), (eager, eager)):
        generator = torch.Generator().manual_seed(0)
        results = []
        for _ in range(calls):
            x = torch.randn(2, 3, 16, 16, generator=generator, requires_grad=True)
            found = function(x)
            loss(*found).backward()
            results += [*found, x.grad]
        yield results, [parameter.grad for parameter in parameters.parameters()], list(parameters.buffers())


LOSSES = {
    "of one result": lambda scores, _: scores.square().sum(),
    "of both": lambda scores, images: scores.square().sum() + (images * torch.linspace(0, 1, 4)).tanh().sum(),
    "of the images": lambda _, images: images.square().sum(),
    "through another order": lambda scores, images: (images.permute(0, 2, 3, 1).contiguous() * torch.arange(4.0)).sum() + scores.sum(),
}


@pytest.mark.parametrize("name", LOSSES)
def test_results_and_gradients_are_eagers(turned, name) -> None:
    torch.manual_seed(0)
    ours, eager = of_both(Network(), LOSSES[name])
    torch.testing.assert_close(ours, eager, rtol=2e-4, atol=2e-5)
    for found, wanted in zip((*ours[0], *ours[1]), (*eager[0], *eager[1]), strict=True):
        assert found is wanted is None or found.stride() == wanted.stride()
    for calls in turned[:2]:
        convolutions = [call for call in calls if "convolution" in str(call.operator)]
        assert len(convolutions) == 8
        for call in convolutions:
            images = call.arguments[:2] if "backward" in str(call.operator) else call.arguments[:1]
            assert all(image.strides == channels_last(image.sizes) for image in images)


def test_second_derivatives_and_batches_of_tangents(turned) -> None:
    torch.manual_seed(0)
    layers = nn.Conv2d(3, 4, 3, padding=1), nn.Tanh(), nn.Conv2d(4, 4, 3), nn.Tanh(), nn.Conv2d(4, 2, 3, padding=1), nn.Flatten()
    module = nn.Sequential(*layers)
    found = []
    for function in (dynascope.compile(module), module):
        x = torch.linspace(-1, 1, 2 * 3 * 36).view(2, 3, 6, 6).requires_grad_()
        y = function(x)
        (first,) = torch.autograd.grad(y.square().sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(first.square().sum(), x)
        y = function(x)
        (batch,) = torch.autograd.grad(y, x, torch.eye(y.numel()).view(-1, *y.shape)[:5], is_grads_batched=True)
        found.append((first, second, batch))
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-5)


def test_where_one_pass_runs_as_operators_nothing_is_turned(monkeypatch) -> None:
    """Operators give what is saved as the graphs say."""
    asked = []

    def begun(graph, inputs, options, clock, mutations, takes_list, is_read, together=None):
        asked.append(together)
        made = CompiledAten(graph, graph, None, (), runs_operators=takes_list and together is not None)
        return lambda: made

    def empty(device):
        graph = torch.fx.Graph()
        graph.placeholder("x").meta["device"] = torch.device(device)
        graph.output(())
        return torch.fx.GraphModule(nn.Module(), graph)

    monkeypatch.setattr(compile_aten, "_begun", begun)
    compile_aten.compile_together([(empty("cuda"), None), (empty("cuda"), None)], shared=((0, 0),))
    assert [each is None for each in asked] == [False, False, True, True]
    asked.clear()
    compile_aten.compile_together([(empty("cpu"), None), (empty("cpu"), None)], shared=((0, 0),))
    assert asked == [None, None]
