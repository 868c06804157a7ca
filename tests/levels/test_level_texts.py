"""Every level's text of every example and every function of the founding documents, run by Python, gives eager's results."""

from __future__ import annotations

import runpy
from pathlib import Path

import dynascope
import pytest
import torch
from dynascope import api
from dynascope.command.interception import asks_for_compilation
from every_level import checked_levels
from torch import nn
from torch.nn import functional as F

EXAMPLES = Path(__file__).parents[2] / "examples"


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(32, 64)

    def forward(self, x):
        x = self.fc1(x)
        x = torch.nn.functional.gelu(x)
        return x


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(128, 10)

    def forward(self, x):
        x = self.fc(x)
        x = F.relu(x)
        return x


def promoting(a, b):
    return a + b


def foo1(a, b):
    x = a + b
    if b.sum() < 0:
        x = x * -1
    return x


def foo2(a, b):
    x = a + b
    if b.sum() < 0:
        x = x * -1
    if a.sum() < 0:
        x = x * -2
    x = 2 * x
    return x


def foo_branching(a, b):
    if a.dtype is torch.float32:
        return a + b
    return a - b


def foo_loop(a):
    b = a
    for _ in range(3):
        b = b + a

    return b


def toy_example(a, b):
    x = a + b
    x = x / 2.0
    if x.sum() < 0:
        return x * -1.0
    return x


def writes(x, w):
    """An input that is written to, a view that is returned, a normalization and a softmax."""
    x.add_(1)
    y = F.layer_norm(x @ w, (4,))
    return torch.softmax(y, -1, dtype=torch.float64), x[1:], (y > 0).sum()


def statistics(x, y):
    kept = torch.cat([x.mean(1, keepdim=True), y.var(1, keepdim=True)], 1)
    return torch.where(kept > 0, torch.sigmoid(kept), kept.clamp(-1, 0.5)), x.amax(0), (x * x[:, :1]).unsqueeze(0).expand(2, -1, -1)


def leaf(*sizes, **keywords):
    return torch.randn(*sizes, requires_grad=True, **keywords)


SEEDS = {
    "mlp": (lambda: MLP(), lambda: (leaf(8, 32),)),
    "net": (lambda: Net(), lambda: (torch.randn(2, 128),)),
    "promotion": (lambda: promoting, lambda: (torch.rand(3), torch.rand(3, 3, dtype=torch.half))),
    "foo1": (lambda: foo1, lambda: (torch.ones(2, 3), leaf(2, 3))),
    "foo2": (lambda: foo2, lambda: (leaf(2, 3), torch.ones(2, 3))),
    "branching": (lambda: foo_branching, lambda: (torch.ones(4, dtype=torch.float64), torch.arange(4))),
    "loop": (lambda: foo_loop, lambda: (leaf(4),)),
    "slides": (lambda: toy_example, lambda: (leaf(10), torch.randn(10))),
    "writes": (lambda: writes, lambda: (torch.randn(3, 5), leaf(5, 4))),
    "statistics": (lambda: statistics, lambda: (leaf(3, 4), leaf(3, 4))),
}


@pytest.mark.may_break
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "symbolic"])
@pytest.mark.parametrize("name", SEEDS)
def test_texts_of_the_seeds(name, dynamic):
    torch.manual_seed(0)
    make, arguments = SEEDS[name]
    with checked_levels() as checked:
        dynascope.compile(make(), dynamic=dynamic)(*arguments())
    assert checked


@pytest.mark.may_break
@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_texts_of_the_examples(path, monkeypatch, capsys):
    monkeypatch.setattr(torch, "compile", api.torch_compile)
    with checked_levels() as checked:
        program = runpy.run_path(str(path))
        if not asks_for_compilation(path.read_bytes()):
            compile_all(program)
        program["main"]()
    assert checked


def compile_all(program):
    """As `dynascope run` does for a file that compiles nothing: every function and `forward`."""
    own = {name: value for name, value in program.items() if getattr(value, "__module__", "") == "<run_path>"}
    for name, value in own.items():
        if isinstance(value, type):
            value.forward = dynascope.compile(value.forward)
        elif name != "main":
            program["main"].__globals__[name] = dynascope.compile(value)
