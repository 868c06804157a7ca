"""Seed 003: branches, unrolled loops, foreign functions, `explain`, guards, the cache, and what a varying scalar costs."""

import dynascope
import numpy as np
import pytest
import torch


@pytest.fixture
def a():
    return torch.ones(4)


@pytest.fixture
def b():
    return torch.arange(4)


def foo_simple(a, b):
    return a + b


def foo_branching(a, b):
    if a.dtype is torch.float32:
        return a + b
    return a - b


def foo_loop(a):
    b = a
    for _ in range(3):
        b = b + a

    return b


def foo_foreign(a, b):
    a = a + 2
    b = torch.from_numpy(b)
    return a + b


def foo_foreign2(a, b):
    a = a + 2
    b = np.add(b, 1)
    b = torch.from_numpy(b)
    return a + b


def foo_foreign3(a, b):
    a = a + 2
    b = b + 1
    b = torch.from_numpy(b)
    return a + b


def foo_easy(a, b):
    return a - b


def test_simple(optimize, backend, a, b):
    torch.testing.assert_close(optimize(foo_simple)(a, b), a + b)
    assert backend.counts == [1]


def test_branch_on_a_dtype_is_decided_at_capture(optimize, backend, a, b):
    compiled = optimize(foo_branching)
    torch.testing.assert_close(compiled(a, b), a + b)
    torch.testing.assert_close(compiled(a.double(), b), a.double() - b)
    assert backend.counts == [1, 1]


def test_loop_is_unrolled(optimize, backend, a):
    torch.testing.assert_close(optimize(foo_loop)(a), foo_loop(a))
    assert backend.counts == [3]


@pytest.mark.parametrize("function", [foo_foreign, foo_foreign2, foo_foreign3])
def test_calls_of_numpy_are_part_of_the_graph(optimize, backend, a, b, function):
    """They broke it when the notebook was written."""
    compiled = optimize(function)
    for _ in range(2):
        torch.testing.assert_close(compiled(a, b.numpy()), function(a, b.numpy()))
    assert len(backend.counts) == 1


def foo_foreign4(a, b):
    a = a + 2
    b = torch.from_numpy(np.partition(b, 1))
    return a + b


@pytest.mark.expects("foreign-call")
def test_foreign_calls_break_once_and_give_eager_results(optimize, backend, a, b):
    compiled = optimize(foo_foreign4)
    for _ in range(2):
        torch.testing.assert_close(compiled(a, b.numpy()), foo_foreign4(a, b.numpy()))
    assert backend.counts == [1, 2]


def test_explain(a, b):
    explanation = dynascope.explain(foo_foreign4, a, b.numpy())
    text, guards, graphs, operations, reasons = explanation
    assert len(graphs) == 2 and sum(operations) == 3 and len(reasons) == 1
    assert "np.partition(b, 1)" in text and reasons[0].span.line == foo_foreign4.__code__.co_firstlineno + 2
    assert reasons[0].remedy and guards


def test_cache(optimize, backend, a, b):
    compiled = optimize(foo_easy)
    compiled(a, b)
    compiled(a, b)
    assert len(backend.graphs) == 1
    torch.testing.assert_close(compiled(a.double(), b), a.double() - b)
    assert len(backend.graphs) == 2
    compiled(a, b)
    assert len(backend.graphs) == 2
    for scalar in (2, 2, 3, 3, 4, 2):
        torch.testing.assert_close(compiled(a, scalar), a - scalar)
    assert len(backend.graphs) == 4


@pytest.mark.parametrize("kind", [int, float])
def test_varying_scalar_compiles_at_most_twice(optimize, backend, a, kind):
    compiled = optimize(foo_easy)
    for value in range(1000):
        result = compiled(a, kind(value))
        assert result.dtype == torch.float32 and result[0] == 1 - value
    assert len(backend.graphs) <= 2


def test_guard_on_a_scalar_says_its_value(a):
    explanation = dynascope.explain(foo_easy, a, 2)
    assert any("2" in guard.check and guard.expression == "b" for guard in explanation.guards)
