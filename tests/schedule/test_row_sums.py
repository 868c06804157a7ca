"""Sums down the columns beside what goes over the same elements by rows."""

from __future__ import annotations

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "loops"))

import pytest
import torch
from dynascope.loops.lower import lower
from dynascope.loops.nodes import Store
from dynascope.schedule.fusion import fuse
from dynascope.schedule.row_sums import FEWEST_ROWS, MOST_COLUMNS, PROGRAMS
from recording import record


def steps(function, *inputs, device="cuda"):
    graph = record(function, list(inputs))
    for node in graph.graph.nodes:
        node.meta["device"] = torch.device(device, 0)
    return fuse(lower(graph)).steps


def norm_gradients(x, scale, weight, tangent):
    """Of y = x * scale * weight, where scale is one number a row: those of the input, the weight and the bias."""
    normal = x * scale
    inner = tangent * weight
    dx = scale * (inner - normal * (inner * normal).mean(-1, keepdim=True))
    return dx, (tangent * normal).sum(0), tangent.sum(0)


def given(rows=4096, columns=256):
    return torch.randn(rows, columns), torch.randn(rows, 1), torch.randn(columns), torch.randn(rows, columns)


def sums_in(step) -> int:
    return sum(isinstance(operation, Store) and operation.mode == "sum" for operation in step.body)


def test_gradients_of_a_norm_are_read_for_once():
    rows, last = steps(norm_gradients, *given())
    assert sums_in(rows) == 2
    assert [symbol.extent for symbol in last.columns] == [PROGRAMS]
    assert last.row_count == 256


def test_what_one_makes_for_the_other_is_not_stored():
    """Costly enough to be kept, and read by nobody else."""

    def gradients(x, weight, tangent):
        costly = (x.erf() * x.exp()).tanh()
        return (tangent * costly).sum(0), torch.softmax(tangent * weight * costly, -1)

    rows, _ = steps(gradients, torch.randn(4096, 256), torch.randn(256), torch.randn(4096, 256))
    assert sum(isinstance(op, Store) and op.mode == "set" for op in rows.body) == 1
    assert sums_in(rows) == 1


@pytest.mark.parametrize(
    "reason, function, inputs",
    [
        ("few rows", norm_gradients, given(rows=512)),
        ("rows that no program holds", norm_gradients, given(columns=16384)),
        ("other tensors", lambda x, y: (torch.softmax(x, -1), y.sum(0)), (torch.randn(4096, 256), torch.randn(4096, 256))),
        ("a product, not a sum", lambda x: (torch.softmax(x, -1), x.amax(0)), (torch.randn(4096, 256),)),
        ("the sum itself is needed", lambda x: torch.softmax(x - x.sum(0), -1), (torch.randn(4096, 256),)),
    ],
)
def test_other_sums_stay_steps_of_their_own(reason, function, inputs):
    assert not any(sums_in(step) for step in steps(function, *inputs)), reason


@pytest.mark.parametrize(
    "rows, columns, joined",
    [
        (FEWEST_ROWS, 256, True),
        (FEWEST_ROWS - 1, 256, False),
        (FEWEST_ROWS, MOST_COLUMNS, True),
        (FEWEST_ROWS, MOST_COLUMNS + 1, False),
    ],
)
@pytest.mark.parametrize("sums_come_first", [False, True])
def test_from_which_size_on(rows, columns, joined, sums_come_first):
    def function(x):
        if sums_come_first:
            total = x.sum(0)
            return total, torch.softmax(x, -1)
        return torch.softmax(x, -1), x.sum(0)

    made = steps(function, torch.empty(rows, columns))
    assert [sums_in(step) for step in made] == [int(joined), 0]
    assert len(made) == 2


def test_each_pair_of_several_is_joined_with_its_own():
    """Other shapes between them are passed over, at the program's start and at its end."""

    def function(x, y):
        return torch.softmax(x, -1), torch.softmax(y, -1), y.sum(0), x.sum(0)

    made = steps(function, torch.empty(4096, 256), torch.empty(4096, 128))
    joined = {step.column_count: sums_in(step) for step in made if sums_in(step)}
    assert joined == {256: 1, 128: 1}


@pytest.mark.parametrize("dtype", [torch.float64, torch.int64])
def test_only_numbers_that_partial_sums_are_kept_in(dtype):
    assert not any(sums_in(step) for step in steps(lambda x: (torch.softmax(x.float(), -1), x.sum(0)), torch.zeros(4096, 256, dtype=dtype)))


def test_processors_keep_their_own_way():
    assert not any(sums_in(step) for step in steps(norm_gradients, *given(), device="cpu"))
