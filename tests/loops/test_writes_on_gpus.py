"""Writes to computed places on a GPU: kernels where eager's order is nobody's, the library where eager keeps one."""

from __future__ import annotations

import pytest
import torch
from dynascope.loops.lower import lower
from dynascope.loops.nodes import ScatterNode
from recording import record

X, AT, GIVEN = torch.randn(8, 4), torch.tensor([1, 5, 1]), torch.randn(3, 4)


def is_kernel(function, base=X, given=GIVEN) -> bool:
    graph = record(function, [base, AT, given])
    for node in graph.graph.nodes:
        node.meta["device"] = torch.device("cuda", 0)
    return any(isinstance(node, ScatterNode) for node in lower(graph).nodes)


def adds(x, at, given):
    return x.index_add(0, at, given)


def puts(x, at, given):
    return x.index_put((at,), given)


def accumulates(x, at, given):
    return x.index_put((at,), given, accumulate=True)


def test_atomic_additions_and_writes_are_kernels():
    assert is_kernel(adds) and is_kernel(puts)


def test_additions_that_eager_sorts_stay_the_librarys():
    assert not is_kernel(accumulates)
    assert not is_kernel(adds, X.bfloat16(), GIVEN.bfloat16())


@pytest.fixture
def deterministic():
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


def test_where_the_program_asks_for_an_order_eager_keeps_it(deterministic):
    assert not is_kernel(adds) and not is_kernel(puts)
