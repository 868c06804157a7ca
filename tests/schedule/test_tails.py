"""Reductions whose elements are hardly read are not written."""

from __future__ import annotations

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "runtime"))

import pytest
import torch
from compiled import check


def largest_written(module) -> int:
    return max(module.schedule.buffers[w].elements for step in module.schedule.steps for w in step.writes)


def test_cross_entropy_writes_no_matrix() -> None:
    def f(x, y):
        return -torch.log_softmax(x, -1).gather(1, y.unsqueeze(1)).squeeze(1).mean()

    assert largest_written(check(f, torch.randn(32, 100), torch.randint(0, 100, (32,)), tolerance=1e-5)) <= 32


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_a_row_of_a_normalised_batch(dtype) -> None:
    def f(x, i):
        return torch.softmax(x, 1)[i] + 1

    module = check(f, torch.randn(64, 40).to(dtype), torch.randint(0, 64, (3,)), tolerance=1e-2)
    assert largest_written(module) <= 64 * 3


def test_an_element_that_the_caller_sees_too_is_written() -> None:
    def f(x, y):
        logs = torch.log_softmax(x, -1)
        return logs, logs.gather(1, y)

    assert largest_written(check(f, torch.randn(32, 100), torch.randint(0, 100, (32, 1)), tolerance=1e-5)) == 3200


def test_columns_in_front() -> None:
    def f(x, y):
        return torch.log_softmax(x, 1).gather(1, y).sum(0)

    check(f, torch.randn(4, 30, 7), torch.randint(0, 30, (4, 1, 7)), tolerance=1e-5)
