"""Groups that ask where they are, cut into segments."""

from __future__ import annotations

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "runtime"))

import pytest
import torch
from compiled import check, kernels
from dynascope.loops.nodes import Compute, IndexValue


@pytest.mark.parametrize("dimension", [0, 1])
@pytest.mark.parametrize("widths", [(16, 24, 40), (17, 33, 8)])
def test_a_concatenation_is_one_kernel_for_each_part(dimension, widths) -> None:
    parts = [torch.randn(w, 48) if dimension == 0 else torch.randn(48, w) for w in widths]

    def f(a, b, c):
        return torch.cat([a * 2, b + 1, c], dimension) + 1

    module = check(f, *parts)
    assert len(kernels(module)) == 3
    bodies = [op for k in kernels(module) for op in k.group.body]
    assert not any(isinstance(op, Compute) and op.name in ("where", "less") for op in bodies)


def test_padding_is_cut_on_both_sides() -> None:
    module = check(lambda x: torch.nn.functional.pad(x, (16, 8), value=3.0) * 2, torch.randn(9, 32))
    assert len(kernels(module)) == 3


def test_rotated_halves_and_their_users() -> None:
    def f(x, cos, sin):
        half = x.shape[-1] // 2
        return x * cos + torch.cat([-x[..., half:], x[..., :half]], -1) * sin

    check(f, torch.randn(2, 5, 64), torch.randn(5, 64), torch.randn(5, 64))


def test_memory_of_a_cut_result_comes_once() -> None:
    def f(x, y):
        z = torch.cat([x.exp(), y], 1)
        return z @ z.t(), z.tanh().sum(1)

    module = check(f, torch.randn(16, 32), torch.randn(16, 16), tolerance=1e-4)
    names = [allocation.buffer for allocation in module.schedule.allocations]
    assert len(names) == len(set(names))


def test_indices_of_both_parts_are_checked() -> None:
    def f(x, i, j):
        return torch.cat([x[i], x[j] * 2], 0)

    x, good = torch.randn(8, 16), torch.randint(0, 8, (10,))
    check(f, x, good, good)


def test_a_boundary_that_falls_between_the_steps_of_an_outer_loop_cuts_it() -> None:
    """The halves of a rotary embedding: the loop over 64 is split in 2 by 32 before it is cut."""

    def rotate(x, sine):
        half = x.shape[-1] // 2
        return torch.cat((-x[..., half:], x[..., :half]), -1) * sine

    groups = [kernel.group for kernel in kernels(check(rotate, torch.randn(4, 6, 64), torch.randn(6, 64)))]
    assert len(groups) == 2
    for group in groups:
        assert not any(isinstance(op, IndexValue) for op in group.body) and all(s.extent > 1 for s in group.rows)


@pytest.mark.parametrize("rows", [1, 2, 5])
@pytest.mark.parametrize("program", [
    lambda x, i, y: torch.cat([x[i] * 2, y], 0) + 1,
    lambda x, i, y: torch.cat([y, x[i], y], 0).sum(1),
    lambda x, i, y: torch.nn.functional.pad(x[i], (1, 2, 3, 0)).exp(),
    lambda x, i, y: torch.nn.functional.pad(x[i], (0, 0, 0, 1)).softmax(0),
    lambda x, i, y: torch.stack([x[i].sum(0), y[0]]).flip(0),
])  # fmt: skip
def test_an_index_is_not_asked_for_outside_its_part(program, rows) -> None:
    """A table of a single row has no other place that could be read in its stead."""
    x, y = torch.randn(rows, 16), torch.randn(3, 16)
    check(program, x, torch.full((4,), rows - 1), y)
    check(program, x, torch.full((4,), -rows), y)
