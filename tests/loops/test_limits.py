"""What a guard says of loop variables, and what divisions of positions become where it holds."""

from __future__ import annotations

import dynascope
import pytest
import torch
from dynascope.loops.body import BodyBuilder
from dynascope.loops.index import Symbol, constant, floor_divide, modulo, variable
from dynascope.loops.limits import inside, limits_of
from dynascope.sizes import Scope, evaluate
from hypothesis import given
from hypothesis import strategies as st

ROW, COLUMN = Symbol("i", 10), Symbol("j", 7)


def holds(name, value, bound):
    return {"less": value < bound, "greater_equal": value >= bound}[name]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["less", "greater_equal"]),
            st.integers(-3, 3),
            st.integers(-3, 3),
            st.integers(-5, 5),
            st.integers(-10, 40),
        ),
        min_size=1,
        max_size=3,
    ),
    st.integers(1, 12),
)
def test_limits_hold_wherever_the_guard_does(comparisons, divisor):
    builder, guard = BodyBuilder(None), None
    for name, a, b, offset, bound in comparisons:
        index = variable(ROW) * a + variable(COLUMN) * b + offset
        if index.is_constant:
            continue
        compared = builder.index_value(index).apply(name, bound)
        guard = compared if guard is None else builder.compute("and", guard, compared)
    limits = limits_of(builder.operations, None if guard is None else guard.number)
    flat = variable(ROW) * 7 + variable(COLUMN)
    quotient, remainder = inside(flat, limits, lambda index: (floor_divide(index, divisor), modulo(index, divisor)))
    for i in range(10):
        for j in range(7):
            if all(holds(name, a * i + b * j + offset, bound) for name, a, b, offset, bound in comparisons if a or b):
                assert all(first <= {ROW: i, COLUMN: j}[symbol] <= last for symbol, (first, last) in limits.items())
                assert (value_of(quotient, i, j), value_of(remainder, i, j)) == divmod(7 * i + j, divisor)


def value_of(index, i, j):
    def of(atom):
        if isinstance(atom, Symbol):
            return {ROW: i, COLUMN: j}[atom]
        inner = value_of(atom.dividend, i, j)
        return inner // atom.divisor if type(atom).__name__ == "Quotient" else inner % atom.divisor

    return index.constant + sum(factor * of(atom) for atom, factor in index.terms)


def test_half_of_a_dimension_divides_out():
    whole, last = Symbol("a", 5), Symbol("b", 128)
    builder = BodyBuilder(None)
    guard = builder.index_value(variable(last)).less(64)
    flat = variable(whole) * 64 + variable(last)
    limits = limits_of(builder.operations, guard.number)
    assert inside(flat, limits, lambda index: (floor_divide(index, 64),)) == (variable(whole),)
    assert inside(constant(3), {}, lambda index: (index,)) == (constant(3),)


@given(st.booleans(), st.integers(0, 3), st.integers(1, 3), st.integers(2, 9))
def test_limits_that_vary_hold_too(is_below, factor, others, size):
    """`r < factor * n` and `r >= factor * n`, of `(factor + others) * n` in all."""
    scope = Scope()
    n = scope.root("n", 5, low=2)
    row, column = Symbol("r", 4), Symbol("c", (factor + others) * n)
    builder = BodyBuilder(None)
    compared, bound = builder.index_value(variable(column)), builder.index_value(constant(factor * n))
    guard = compared.less(bound) if is_below else compared.apply("greater_equal", bound)
    limits = limits_of(builder.operations, guard.number)
    length = others * n
    flat = variable(row) * length + variable(column) + (0 if is_below else -factor * n)
    quotient, remainder = inside(flat, limits, lambda index: (floor_divide(index, length), modulo(index, length)))
    if (is_below and 0 < factor <= others) or (not is_below and factor):
        assert limits.keys() == {column}
        assert (quotient, remainder) == (variable(row), flat + variable(row) * -length)
    for first, last in limits.values():
        at = [evaluate(getattr(end, "expression", end), {"n": size}) for end in (first, last)]
        assert at == ([0, factor * size - 1] if is_below else [factor * size, (factor + others) * size - 1])
    assert len(scope.log) == 0


@pytest.mark.compiler
@pytest.mark.parametrize("sizes", [(64, 64), (30, 50), (1, 7, 2)])
def test_joined_parts_that_are_computed(sizes):
    def program(x, y):
        parts = x.split(sizes, -1)
        return torch.cat([-part.sin() for part in reversed(parts)], -1) * y

    x, y = torch.randn(3, 5, sum(sizes)), torch.randn(5, sum(sizes))
    torch.testing.assert_close(dynascope.compile(program)(x, y), program(x, y))
