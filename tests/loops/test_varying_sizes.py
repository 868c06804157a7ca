"""One kernel for all sizes: programs compiled once at a hint, run at many other sizes, and equal to eager at each."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from symbolic_graphs import number, tensor
from varying import check_at, externs, generated, texts
from varying_programs import NUMBERS, ONE, PROGRAMS, TWO, TWO_ROOTS


def close(name):
    return 1e-2 if name == "half" else 2e-4


@pytest.mark.turns(6)
@pytest.mark.parametrize("name", PROGRAMS)
def test_one_size_varies(name):
    function, inputs = PROGRAMS[name]
    graph, _ = check_at(function, inputs, {"s0": 7}, ONE, close(name))
    assert not graph.fixed()


@pytest.mark.parametrize("name", TWO_ROOTS)
def test_two_sizes_vary(name):
    function, inputs = TWO_ROOTS[name]
    graph, _ = check_at(function, inputs, {"s0": 7, "s1": 12}, TWO, close(name))
    assert not graph.fixed()


@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_varies(name):
    function, inputs = NUMBERS[name]
    graph, _ = check_at(
        function, inputs, {"n": 3}, [{"n": n} for n in (2, 3, 4, 5, 8, 17, 31, 50)], close(name), features=("(72 - n) // 3",)
    )
    assert not graph.fixed()


@pytest.mark.parametrize("function", [
    lambda x, n: x * n, lambda x, n: x + n, lambda x, n: x.clamp(min=n), lambda x, n: torch.full((3,), n) + x[0],
    lambda x, n: torch.add(x, x, alpha=n), lambda x, n: F.leaky_relu(x, n), lambda x, n: x > n,
])  # fmt: skip
def test_a_float_varies(function):
    graph, _ = check_at(function, [tensor("s0"), number("f")], {"s0": 7, "f": 0.3}, [
        {"s0": s, "f": f} for s, f in ((9, 0.3), (7, 0.1), (100, -2.5), (3, math.inf), (4, 1e-30))
    ])  # fmt: skip
    assert not graph.fixed()


@pytest.mark.turns(6)
@pytest.mark.parametrize("name", PROGRAMS)
def test_no_hint_gets_into_the_text(name):
    function, inputs = PROGRAMS[name]
    graph, module = generated(function, inputs, {"s0": 7})
    for size in (2, 9, 64, 1000):
        if graph.admits({"s0": size}):
            assert texts(generated(function, inputs, {"s0": size})[1]) == texts(module), size


@pytest.mark.parametrize("name", TWO_ROOTS)
def test_no_hint_of_two_gets_into_the_text(name):
    function, inputs = TWO_ROOTS[name]
    graph, module = generated(function, inputs, {"s0": 7, "s1": 12})
    for values in TWO:
        if graph.admits(values):
            assert texts(generated(function, inputs, values)[1]) == texts(module), values


def test_common_operators_run_in_kernels():
    library = {name for name in PROGRAMS if externs(generated(*PROGRAMS[name], {"s0": 7})[1])}
    assert library == {"matrix product", "linear", "batched product", "convolution", "attention"}
