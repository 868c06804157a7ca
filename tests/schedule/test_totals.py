"""Reductions of whole tensors in two steps."""

from __future__ import annotations

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "runtime"))
sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "loops"))

import pytest
import torch
from compiled import check, compiled, kernels
from dynascope.loops.lower import lower
from dynascope.schedule.fusion import fuse
from recording import record


def totals(x, y):
    z = x * y
    return x.sum(), z.mean(), x.amax(), x.amin(), (x > 9).any(), (x > -9).all(), (x - y).pow(2).sum().sqrt()


@pytest.mark.compiler
@pytest.mark.parametrize("sizes", [(1 << 18,), (512, 1024), (3, 1 << 17), (7, 64, 1000), (262147,)])
def test_totals_are_those_of_eager(sizes: tuple[int, ...]) -> None:
    x, y = (torch.randn(sizes, generator=torch.Generator().manual_seed(k)) for k in range(2))
    check(totals, x, y, tolerance=1e-4)
    x.view(-1)[5] = float("nan")
    check(totals, x, y, tolerance=1e-4)


@pytest.mark.compiler
def test_threads_share_the_parts_and_the_total_is_always_the_same() -> None:
    x = torch.rand(1 << 20, generator=torch.Generator().manual_seed(0))
    module, call = compiled(lambda x: x.sum(), [x])
    first, last = kernels(module)
    assert first.items >= 8 and last.items == 1
    results = []
    for threads in (1, 2):
        before = torch.get_num_threads()
        torch.set_num_threads(threads)
        results.append(call(x)[0])
        torch.set_num_threads(before)
    assert torch.equal(*results)
    exact = x.double().sum()
    assert (results[0].double() - exact).abs() <= (x.sum().double() - exact).abs() + exact * 2**-24


@pytest.mark.compiler
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.int64, torch.int32, torch.bool], ids=str)
def test_dtypes(dtype: torch.dtype) -> None:
    x = (torch.randn(600, 700, generator=torch.Generator().manual_seed(0)) * 3).to(dtype)
    check(
        lambda x: (x.sum(), x.amax(), x.any(), x.sum(1).sum()), x, tolerance=1e-2 if dtype == torch.bfloat16 else 1e-6
    )


def divergence(x, y):
    shares = y.softmax(-1)
    return (shares * (shares.log() - x.log_softmax(-1))).sum() / len(x)


def over_two_dimensions_of_rows(x, y):
    return (x.view(-1, 4, x.shape[1]).softmax(-1) * y.view(-1, 4, x.shape[1])).amax()


@pytest.mark.compiler
@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("function", [divergence, over_two_dimensions_of_rows], ids=lambda function: function.__name__)
def test_the_total_of_what_rows_give_is_a_total_of_rows(function, device) -> None:
    """Its first step is part of the loops over the rows: nothing is read again."""
    x, y = (torch.randn(1024, 40, generator=torch.Generator().manual_seed(k)) for k in range(2))
    graph = record(function, [x, y])
    for node in graph.graph.nodes:
        node.meta["device"] = torch.device(device)
    rows, total = fuse(lower(graph)).steps
    assert len(rows.rows) == 1 and len(rows.writes) == 1 and len(total.reads) == 1
    if device == "cpu":
        check(function, x, y, tolerance=1e-5)
