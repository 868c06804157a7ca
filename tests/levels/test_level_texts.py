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
ELSEWHERE = {EXAMPLES / "distributed.py", EXAMPLES / "custom_backend.py"}
"""Its graphs are compiled in other processes, or by a backend of its own."""


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


class Squared(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2 * ctx.saved_tensors[0]


def mapped(x):
    """Graphs inside of a graph, one inside another."""
    return torch.func.vmap(torch.func.grad(lambda row: (row * row.sum()).sum()))(x), Squared.apply(x)


def differentiated(x):
    return torch.autograd.grad(x.sin().sum(), x)[0]


def constants(x):
    """More than are written as numbers, and numbers that have no literal."""
    return x + torch.tensor([number / 7 for number in range(100)]), x[:2] + torch.tensor([float("nan"), float("inf")])


def without_dimensions(x):
    """A prim of `reshape` knows no empty shape."""
    return x.sum(0, keepdim=True).reshape(()) * 2


def of_complex_numbers(x):
    z = torch.complex(x, x.cos())
    return z.abs(), torch.view_as_real(torch.sgn(z) * 2), (z * z).real


def seen_as_memory(x, weight):
    """The backward kernel of group normalization reads a tangent as it lies in memory."""
    rows = (x.transpose(1, 2) @ weight).transpose(1, 2)
    return F.group_norm((F.group_norm(x, 2).transpose(1, 2) @ weight).transpose(1, 2) + rows, 2).sin()


def attention(x):
    """A random mask has as many elements as what it masks, whatever that is."""
    heads = x.view(*x.shape[:2], 2, -1).transpose(1, 2)
    mixed = F.scaled_dot_product_attention(heads, heads, heads, None, 0.25)
    return mixed.permute(2, 0, 1, 3).reshape(-1, 8).view(x.shape[1], x.shape[0], 8), heads.softmax(-1)


def recurrent():
    torch.manual_seed(0)
    return nn.LSTM(4, 3)


def returning_views(x, w):
    y = x * w
    first, second = y.chunk(2, -1)
    z = torch.view_as_complex(y[:, :2] * 2)
    return y.t(), x[1:], first, second, y.unfold(1, 2, 1), z.conj(), z.imag, y.detach(), x, y.shape[0], "a word", w.expand(3, 4)


def views_alone(x):
    y = x.sin()
    return y.t(), y[0]


def views_of_what_is_written(x, w):
    x.view(-1)[::2].copy_(w)
    return x.view(-1), x


SEEDS = {
    "views": (lambda: returning_views, lambda: (leaf(3, 4), leaf(4))),
    "views alone": (lambda: views_alone, lambda: (leaf(3, 4),)),
    "written views": (lambda: views_of_what_is_written, lambda: (torch.randn(3, 4), leaf(6))),
    "mapped": (lambda: mapped, lambda: (leaf(3, 4),)),
    "differentiated": (lambda: differentiated, lambda: (leaf(3),)),
    "constants": (lambda: constants, lambda: (leaf(100),)),
    "without dimensions": (lambda: without_dimensions, lambda: (leaf(5),)),
    "complex": (lambda: of_complex_numbers, lambda: (leaf(3, 4),)),
    "memory": (lambda: seen_as_memory, lambda: (leaf(1, 8, 16), leaf(8, 8))),
    "attention": (lambda: attention, lambda: (leaf(2, 3, 8),)),
    "recurrent": (recurrent, lambda: (leaf(3, 2, 4),)),
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


@pytest.mark.turns(6)
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
@pytest.mark.parametrize("path", sorted(set(EXAMPLES.glob("*.py")) - ELSEWHERE), ids=lambda path: path.stem)
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


def test_what_a_text_returns_is_said():
    """The joint graph gives the program's results, views too; the forward graph says how they are made of what it gives."""

    def both(x, w, count):
        count.add_(1)
        y = x * w
        return y.t(), y[0], x[1:]

    made = dynascope.explain(both, leaf(3, 4), leaf(4), torch.zeros(2))
    joint, parts = made.show("joint"), made.show("aten")
    assert joint.endswith(
        "    # results: permute, select, slice_1\n"
        "    # new contents: add of count\n"
        "    # gradients that come in: tangents_1 of mul\n"
        "    # gradients: mul_2 of x (but for results that are x or views of it), view of w\n"
        "    return (permute, select, slice_1, add, None, mul_2, view)"
    ), joint
    aten = "torch.ops.aten"
    assert f"    # results: {aten}.t.default(mul), {aten}.select.int(mul, 0, 0), {aten}.slice.Tensor(x, 0, 1, " in parts
    assert "    # new contents: add of count\n    # saved for the backward pass: " in parts
    assert "    # gradients: mul_1 of x (but for results that are x or views of it), view of w\n    return" in parts
    assert dynascope.explain(plain, torch.ones(2)).show("aten").count("#") == 3, "the title, the types and the line"


def plain(x):
    return x + 1
