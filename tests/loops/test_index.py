"""Index expressions against plain arithmetic."""

from __future__ import annotations

import itertools

import pytest
from dynascope.loops.index import (
    Index,
    Quotient,
    Remainder,
    Symbol,
    affine,
    delinearize,
    floor_divide,
    linear,
    modulo,
    variable,
)
from dynascope.sizes import Scope
from hypothesis import given
from hypothesis import strategies as st

I, J, K = Symbol("i", 4), Symbol("j", 6), Symbol("k", 5)  # noqa: E741


def value(index: Index, at: dict[Symbol, int]) -> int:
    total = index.constant
    for atom, factor in index.terms:
        if isinstance(atom, Symbol):
            total += factor * at[atom]
        else:
            inner = value(atom.dividend, at)
            total += factor * (inner // atom.divisor if isinstance(atom, Quotient) else inner % atom.divisor)
    return total


def places() -> list[dict[Symbol, int]]:
    return [dict(zip((I, J, K), p, strict=True)) for p in itertools.product(*(range(s.extent) for s in (I, J, K)))]


coefficients = st.integers(-30, 30)


@given(coefficients, coefficients, coefficients, st.integers(-50, 50), st.integers(1, 40), st.integers(1, 12))
def test_division_is_exact(a: int, b: int, c: int, offset: int, divisor: int, second: int) -> None:
    index = affine({I: a, J: b, K: c}, offset)
    quotient, remainder = floor_divide(index, divisor), modulo(index, divisor)
    nested = floor_divide(modulo(index, divisor * second), divisor)
    for at in places():
        plain = value(index, at)
        assert value(quotient, at) == plain // divisor
        assert value(remainder, at) == plain % divisor
        assert value(nested, at) == plain % (divisor * second) // divisor
        assert index.bounds[0] <= plain <= index.bounds[1]


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_delinearize_undoes_linear(order: tuple[int, ...]) -> None:
    sizes, strides, step = (4, 6, 5), [0, 0, 0], 1
    for dimension in order:
        strides[dimension], step = step, step * sizes[dimension]
    indices = tuple(variable(s) for s in (I, J, K))
    assert delinearize(linear(indices, strides), sizes, strides) == indices


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_delinearize_undoes_linear_where_strides_are_equal_now(order: tuple[int, ...]) -> None:
    """At n = 3 the second dimension has one element, and its stride is the first one's."""
    scope = Scope()
    n = scope.root("n", 3, low=2)
    sizes, strides = (n, n - 2, n - 1), ((n - 1) * (n - 2), n - 1, 1)
    symbols = tuple(variable(Symbol(name, size)) for name, size in zip("abc", sizes, strict=True))
    permuted = [[each[d] for d in order] for each in (symbols, sizes, strides)]
    assert delinearize(linear(permuted[0], permuted[2]), permuted[1], permuted[2]) == tuple(permuted[0])
    assert not scope.pinned()


def test_merged_dimensions_recombine() -> None:
    flat = Symbol("f", 24)
    split = delinearize(variable(flat), (4, 6), (6, 1))
    assert [str(s) for s in split] == ["(f // 6)", "(f % 6)"]
    assert linear(split, (6, 1)) == variable(flat)


def test_loops_that_run_once_vanish() -> None:
    assert str(affine({Symbol("one", 1): 7, I: 2}, 3)) == "2*i + 3"
    assert isinstance(modulo(variable(J), 4).terms[0][0], Remainder)


def test_a_place_with_sizes_that_vary_is_computed_each_time():
    """What is relied on to order the dimensions is noted for each graph: an answer from memory would not note it."""
    n = Scope().root("n", 5, 2)
    first = variable(Symbol("i", n))
    assert not first.is_fixed and not floor_divide(affine({Symbol("i", n): 2, J: 1}), 7).is_fixed
    assert not affine({J: n}).is_fixed and not affine({J: 1}, n).is_fixed
    assert affine({J: 3, K: 1}, 2).is_fixed and floor_divide(affine({J: 5, K: 1}, 2), 7).is_fixed
    inner = Quotient(affine({J: n}), 3, 4)
    assert not variable(inner).is_fixed


@given(st.permutations([0, 1, 2]))
def test_a_place_asked_for_twice_is_the_same(order):
    sizes, strides = [4, 6, 5], [0, 0, 0]
    step = 1
    for d in order:
        strides[d], step = step, step * sizes[d]
    flat = linear(map(variable, (I, J, K)), strides)
    assert delinearize(flat, sizes, strides) == delinearize(flat, sizes, strides) == tuple(map(variable, (I, J, K)))


LONG = Symbol("long", 100)
F = variable(LONG)
ONE_FOR_ANOTHER = [
    (modulo(modulo(F, 12), 4), modulo(F, 4)),
    (floor_divide(floor_divide(F, 3), 4), floor_divide(F, 12)),
    (modulo(F * 4 + 3, 4), Index((), 3)),
    (floor_divide(F * 4 + 3, 4), F),
    (floor_divide(modulo(F, 4), 4), Index()),
    (modulo(F, 100), F),
    (floor_divide(F, 100), Index()),
    (floor_divide(F * 6, 3), F * 2),
    (floor_divide(F, 5) * 5 + modulo(F, 5), F),
    (floor_divide(F, 5) * 10 + modulo(F, 5) * 2, F * 2),
    (modulo(F * -1 + 99, 100), F * -1 + 99),
    (floor_divide(F + 100, 100), Index((), 1)),
]


@pytest.mark.parametrize(("made", "wanted"), ONE_FOR_ANOTHER, ids=lambda index: str(index))
def test_the_shorter_form_is_found(made: Index, wanted: Index) -> None:
    assert made == wanted and str(made) == str(wanted)


@pytest.mark.parametrize("offset", [0, 1, 3, 5, -1, -7])
@pytest.mark.parametrize(("inner", "outer"), [(12, 4), (12, 5), (8, 8), (3, 9)])
def test_what_is_taken_apart_twice_is_right(inner: int, outer: int, offset: int) -> None:
    remainder, quotient = modulo(F, inner) + offset, floor_divide(F, inner) + offset
    parts = [modulo(remainder, outer), floor_divide(remainder, outer), modulo(quotient, outer), floor_divide(quotient, outer)]
    for place in range(100):
        r, q = place % inner + offset, place // inner + offset
        assert [value(part, {LONG: place}) for part in parts] == [r % outer, r // outer, q % outer, q // outer]


@given(coefficients, coefficients, st.integers(-50, 50), st.integers(1, 40))
def test_what_is_divided_is_never_negative(a: int, b: int, offset: int, divisor: int) -> None:
    """C truncates."""
    index = affine({I: a, J: b}, offset)
    for made in (floor_divide(index, divisor), modulo(index, divisor)):
        for atom, _ in made.terms:
            assert isinstance(atom, Symbol) or atom.dividend.bounds[0] >= 0
