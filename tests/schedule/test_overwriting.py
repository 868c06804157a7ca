"""A kernel writes over what a library call made where that is right, and then no more memory is held than without the kernel."""

from __future__ import annotations

import dynascope
import pytest
import torch
import torch.nn.functional as F


def operands() -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(*sizes, generator=generator) for sizes in ((24, 16), (16, 24), (24, 24))]


def activation(x, w, v):
    return F.gelu(x @ w) @ v


def residual(x, w, v):
    h = x @ w
    return (torch.relu(h + v) @ v).sum()


def two_results(x, w, v):
    a, b = x @ w, v @ v
    return (a + b) @ v, (a * b) @ v


def of_images(x, w, v):
    images = F.conv2d(x.view(1, 6, 8, 8), w.reshape(6, 64)[:, :54].reshape(6, 6, 3, 3))
    return F.relu(images).flatten(1) @ v.flatten()[:216]


def seen_otherwise(x, w, v):
    rows = F.gelu((x @ w).view(4, 6, 24))
    return rows.view(24, 24) @ v


OVERWRITTEN = [activation, residual, two_results, of_images, seen_otherwise]


def read_later(x, w, v):
    h = x @ w
    return torch.relu(h) @ v, h @ v


def returned(x, w, v):
    h = x @ w
    return torch.relu(h) @ v, h


def turned(x, w, v):
    h = x @ w
    return (torch.relu(h) + h.t()) @ v


def by_rows(x, w, v):
    return torch.softmax(x @ w, -1) @ v


def handed_on(x, w, v):
    """In evaluation the library's dropout gives what it got."""
    dropped, _ = torch.ops.aten.native_dropout(x, 0.5, False)
    return torch.relu(dropped) @ w


def written_in_parts(x, w, v):
    """Each part of one buffer by a kernel of its own, which reads a product for the last time, as cells of GRUs do."""
    h, g = x @ w, v @ w.t()
    gates = h.clone()
    gates[:, :8] = torch.sigmoid(h[:, :8] + g[:, :8])
    gates[:, 8:16] = torch.sigmoid(gates[:, 8:16] + g[:, 8:16])
    return torch.tanh(gates[:, 16:] * gates[:, :8]) * gates[:, 8:16]


AS_IT_WAS = [read_later, returned, turned, by_rows, handed_on, written_in_parts]


@pytest.mark.compiler
@pytest.mark.parametrize("function", [*OVERWRITTEN, *AS_IT_WAS], ids=lambda function: function.__name__)
def test_results_are_the_same(function) -> None:
    inputs = operands()
    results, wanted = dynascope.compile(function)(*inputs), function(*operands())
    torch.testing.assert_close(results, wanted, rtol=1e-4, atol=1e-4)
    for given, before in zip(inputs, operands(), strict=True):
        assert torch.equal(given, before)


@pytest.mark.compiler
@pytest.mark.parametrize("function", OVERWRITTEN, ids=lambda function: function.__name__)
def test_what_nobody_reads_afterwards_is_overwritten(function) -> None:
    allocated = [line for line in wrapper_of(function).splitlines() if "= empty(" in line and "()" not in line]
    assert allocated == []


@pytest.mark.compiler
@pytest.mark.parametrize("function", AS_IT_WAS, ids=lambda function: function.__name__)
def test_what_is_read_otherwise_stays(function) -> None:
    assert "= empty(" in wrapper_of(function)


def wrapper_of(function) -> str:
    report = dynascope.explain(function, *operands()).report
    return next(text.text for graph in report.graphs for text in graph.texts if text.stage.startswith("wrapper"))


@pytest.mark.compiler
@pytest.mark.parametrize("sizes", [(16, 8), (8, 8), (16, 16), (64, 32)])
def test_cells_of_recurrent_layers(sizes) -> None:
    torch.manual_seed(0)
    cell = torch.nn.GRUCell(*sizes)
    x, h = torch.randn(3, sizes[0]), torch.randn(3, sizes[1])
    torch.testing.assert_close(dynascope.compile(cell)(x, h), cell(x, h), rtol=1e-4, atol=1e-5)


KEPT: list[torch.Tensor] = []


@torch.library.custom_op("tests_overwriting::noted", mutates_args=())
def noted(x: torch.Tensor) -> torch.Tensor:
    KEPT.append(x)
    return x.sum()


@noted.register_fake
def _(x):
    return x.new_empty(())


def test_an_operator_of_the_programs_may_keep_what_it_is_given():
    def program(x):
        for _ in range(4):
            x = x + noted(torch.relu(x)) / 1000
        return x

    x = torch.randn(24, 16)
    KEPT.clear()
    expected = program(x)
    theirs = [*KEPT]
    KEPT.clear()
    torch.testing.assert_close(dynascope.compile(program)(x), expected)
    torch.testing.assert_close(KEPT, theirs)
