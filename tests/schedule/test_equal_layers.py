"""Of equal layers a few are lowered and fused, and the others written from those: the same steps, the same results bit for bit."""

from __future__ import annotations

import dynascope
import pytest
import torch
from dynascope.loops.lower import lower
from dynascope.loops.lower.repeats import find_repeats
from dynascope.runtime import generate
from dynascope.schedule.fusion import fuse
from torch import nn
from torch.nn import functional as F

WIDTH, LAYERS = 16, 10


class Block(nn.Module):
    def __init__(self, p: float = 0.0, scale: float = 1.0) -> None:
        super().__init__()
        self.norm, self.inner = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 2 * WIDTH)
        self.outer, self.drop, self.scale = nn.Linear(2 * WIDTH, WIDTH), nn.Dropout(p), scale

    def forward(self, x: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
        inner = F.gelu(self.inner(self.norm(x)), approximate="tanh")
        if bias is not None:
            inner = inner + bias
        return x + self.drop(self.outer(inner)) * self.scale


class Rotated(Block):
    """What each layer adds is put together part by part, and one part is made of another."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner = super().forward(x)
        turned = torch.empty_like(inner)
        turned[:, ::2] = inner[:, ::2] * 2 - inner[:, 1::2]
        turned[:, 1::2] = inner[:, ::2] + inner[:, 1::2]
        turned[:, 3:5] += turned[:, 0:2]
        return x + turned


class Normalised(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear, self.norm = nn.Linear(WIDTH, WIDTH), nn.BatchNorm1d(WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.norm(self.linear(x))) + x


class Stack(nn.Module):
    def __init__(self, blocks: list[nn.Module]) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(blocks)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return x.square().mean()


class Shifted(Stack):
    """One tensor is written by all layers, each a column."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept = x * 2
        for number, block in enumerate(self.blocks):
            x = block(x)
            kept[:, number] = x[:, 0]
        return (kept * x).sum()


class SharedBias(Stack):
    """As T5: what the layers add is computed once, before them."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        bias = torch.sin(x.mean(0, keepdim=True)).repeat(1, 2)
        for block in self.blocks:
            x = block(x, bias)
        return x.sum()


class AllStates(Stack):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        states = []
        for block in self.blocks:
            x = block(x)
            states.append(x)
        return *states, x * 2


class Stacked(Stack):
    """What follows the layers reads each of them."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        states = []
        for block in self.blocks:
            x = block(x)
            states.append(x)
        return torch.stack(states).exp().mean()


class Mirrored(Stack):
    """As a U-Net: the second half adds what the first half made."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        states = []
        for block in self.blocks[: LAYERS // 2]:
            x = block(x)
            states.append(x)
        for block in self.blocks[LAYERS // 2 :]:
            x = block(x + states.pop())
        return x.mean()


class Tied(Stack):
    """The first layer's weight is read again behind the last."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return (x @ self.blocks[0].inner.weight.t()).mean()


def with_one_other(number: int) -> list[nn.Module]:
    return [Block(scale=0.5 if at == number else 1.0) for at in range(LAYERS)]


MODELS = {
    "layers": lambda: Stack([Block() for _ in range(LAYERS)]),
    "dropout": lambda: Stack([Block(0.3) for _ in range(LAYERS)]),
    "batch norm": lambda: Stack([Normalised() for _ in range(2 * LAYERS)]),
    "one layer again and again": lambda: Stack([Block()] * LAYERS),
    "a bias for all": lambda: SharedBias([Block() for _ in range(LAYERS)]),
    "all states returned": lambda: AllStates([Block() for _ in range(LAYERS)]),
    "all states read behind": lambda: Stacked([Block() for _ in range(LAYERS)]),
    "a U": lambda: Mirrored([Block() for _ in range(LAYERS)]),
    "tied to the first": lambda: Tied([Block() for _ in range(LAYERS)]),
    "another in the middle": lambda: Stack(with_one_other(5)),
    "another near the end": lambda: Stack(with_one_other(LAYERS - 2)),
    "parts written in each layer": lambda: Stack([Rotated() for _ in range(LAYERS)]),
    "parts written by all layers": lambda: Shifted([Block() for _ in range(LAYERS)]),
    "two kinds in turn": lambda: Stack([Block(scale=1.0 + at % 2) for at in range(2 * LAYERS)]),
}
FOUND = {"layers", "dropout", "parts written in each layer", "one layer again and again", "a bias for all"}
NOT_FOUND = {"all states read behind", "a U", "another in the middle"}


def run(model: nn.Module, dynamic: bool | None = None) -> list[torch.Tensor]:
    torch.manual_seed(1)
    x = torch.randn(8, WIDTH, requires_grad=True)
    results = dynascope.compile(model, dynamic=dynamic)(x)
    results = results if isinstance(results, tuple) else (results,)
    sum(result.sum() for result in results).backward()
    found = [*results, x.grad, torch.rand(1), *(p.grad for p in model.parameters()), *model.buffers()]
    return [tensor.detach().clone() for tensor in found]


def made(name: str) -> nn.Module:
    torch.manual_seed(0)
    return MODELS[name]()


@pytest.mark.turns(6)
@pytest.mark.parametrize(("name", "dynamic"), [*((name, None) for name in MODELS), ("dropout", True), ("a bias for all", True)])
def test_results_are_those_of_the_whole_graph(name, dynamic, monkeypatch):
    ours = run(made(name), dynamic)
    monkeypatch.setattr(generate, "find_repeats", lambda graph: None)
    whole = run(made(name), dynamic)
    assert all(map(torch.equal, ours, whole))


def graphs_of(model: nn.Module, monkeypatch) -> list:
    found = []

    def noted(graph):
        found.append(graph)
        return find_repeats(graph)

    monkeypatch.setattr(generate, "find_repeats", noted)
    run(model)
    return found


@pytest.mark.turns(6)
@pytest.mark.parametrize("name", MODELS)
def test_steps_are_those_of_the_whole_graph(name, monkeypatch):
    graphs = graphs_of(made(name), monkeypatch)
    # Results that are computed from each other are parts by themselves, with a backward graph each.
    assert len(graphs) == (1 + LAYERS + 1 if name == "all states returned" else 2)
    for graph in graphs:
        repeats = find_repeats(graph)
        short = lower(graph, repeats=repeats)
        ours, whole = fuse(short), fuse(lower(graph))
        assert len(ours.steps) == len(whole.steps) and len(ours.program.nodes) == len(whole.program.nodes)
        assert ours.peak_bytes == whole.peak_bytes
        assert sorted(map(lines, ours.steps)) == sorted(map(lines, whole.steps))
    is_found = find_repeats(graphs[0]) is not None
    assert is_found or name not in FOUND
    assert not is_found or name not in NOT_FOUND


def lines(step) -> str:
    origins = getattr(step, "origins", None) or (step.origin,)
    return " ".join(sorted(origin.node for origin in origins))


@pytest.mark.parametrize("kind", [Block, Rotated])
def test_depth_costs_nothing_where_layers_are_equal(kind, monkeypatch):
    lowered = []
    for depth in (LAYERS, 3 * LAYERS):
        graphs = graphs_of(Stack([kind() for _ in range(depth)]), monkeypatch)
        lowered.append([len(lower(graph, repeats=find_repeats(graph)).nodes) for graph in graphs])
    assert lowered[0] == lowered[1]


def test_steps_that_differ_are_lowered_whole(monkeypatch):
    """What the layers before the gap have and those behind it do not is no pattern to go by."""
    (forward, _) = graphs_of(made("layers"), monkeypatch)
    short = lower(forward, repeats=find_repeats(forward))
    monkeypatch.setattr("dynascope.schedule.lengthening._window", lambda layers, steps: None)
    assert len(fuse(short).steps) == len(fuse(lower(forward)).steps)
