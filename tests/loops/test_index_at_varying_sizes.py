"""Index expressions whose extents, factors and divisors vary: right at all sizes that their relations allow. And their texts."""

from __future__ import annotations

import itertools

import pytest
from dynascope.codegen.triton import tile
from dynascope.loops.index import (
    Index,
    Quotient,
    Remainder,
    Symbol,
    affine,
    delinearize,
    floor_divide,
    modulo,
    variable,
)
from dynascope.loops.numbers import size_text
from dynascope.sizes import Scope, Size, evaluate
from dynascope.sizes.reach import is_possible
from hypothesis import given, settings
from hypothesis import strategies as st

SCOPE = Scope()
N, M = SCOPE.root("n", 7, 2), SCOPE.root("m", 5, 2)
I, J = Symbol("i", N), Symbol("j", M)  # noqa: E741
FACTORS = {"1": 1, "2": 2, "-1": -1, "n": N, "m": M, "-m": -M, "8": 8, "n*m": N * M, "0": 0}
DIVISORS = {"n": N, "m": M, "8": 8, "n*m": N * M, "2*m": 2 * M, "1": 1, "3": 3}
OFFSETS = {"0": 0, "n": N, "-1": -1, "m - 1": M - 1, "-n": -N, "7": 7, "n*m - 1": N * M - 1}


def number(size, values):
    return evaluate(size.expression, values) if isinstance(size, Size) else size


def value(index: Index, values: dict) -> int:
    total = number(index.constant, values)
    for atom, factor in index.terms:
        if isinstance(atom, Symbol):
            inside = values[atom.name]
        else:
            dividend, divisor = value(atom.dividend, values), number(atom.divisor, values)
            inside = dividend // divisor if isinstance(atom, Quotient) else dividend % divisor
            assert 0 <= inside < number(atom.extent, values), "an atom's own bounds"
        total += number(factor, values) * inside
    return total


def places(sizes):
    for n, m in sizes:
        for i, j in itertools.product(range(n), range(m)):
            yield {"n": n, "m": m, "i": i, "j": j}


@settings(max_examples=150, deadline=None)
@given(*(st.sampled_from(sorted(table)) for table in (FACTORS, FACTORS, OFFSETS, DIVISORS, DIVISORS)))
def test_division_is_exact_at_all_sizes(a, b, offset, divisor, second):
    SCOPE.log.take_back(0)
    index = affine({I: FACTORS[a], J: FACTORS[b]}, OFFSETS[offset])
    divisor, second = DIVISORS[divisor], DIVISORS[second]
    quotient, remainder = floor_divide(index, divisor), modulo(index, divisor)
    nested = floor_divide(modulo(index, divisor * second), divisor), modulo(floor_divide(index, divisor), second)
    for values in places([(2, 2), (3, 5), (5, 3), (4, 2)]):
        if not is_possible(SCOPE, values):  # the sign of `n - m` may be relied on
            continue
        plain, by, then = value(index, values), number(divisor, values), number(second, values)
        assert (value(quotient, values), value(remainder, values)) == divmod(plain, by)
        assert value(nested[0], values) == plain % (by * then) // by and value(nested[1], values) == plain // by % then
        low, high = (number(bound, values) for bound in index.bounds)
        assert low <= plain <= high


def test_a_flipped_row_stays_one():
    SCOPE.log.take_back(0)
    flipped = affine({I: -1, J: N}, N - 1)
    assert floor_divide(flipped, N) == variable(J) and modulo(flipped, N) == affine({I: -1}, N - 1)
    below = affine({I: 1}, -N)
    assert floor_divide(below, N) == Index((), -1) and modulo(below, N) == variable(I)
    assert not len(SCOPE.log)


def test_what_an_index_depends_on():
    index = floor_divide(affine({I: 3, J: 5}), 7) * 2 + modulo(affine({J: 3}), 4)
    assert index.symbols == {I, J} and not index.loaded and not index.is_constant
    assert {type(atom) for atom in index.atoms} == {Quotient, Remainder, Symbol}
    assert affine({I: N}, 3).coefficient(I) is not None and affine({I: 4}).coefficient(J) == 0


@settings(max_examples=150, deadline=None)
@given(st.integers(-9, 9), st.integers(-9, 9), st.integers(-40, 40), st.integers(1, 12), st.sampled_from(["//", "%"]))
def test_texts_of_divisions_mean_the_same_where_quotients_go_to_zero(a, b, offset, divisor, operator):
    """Triton and C round to zero: what is divided in a text is never negative."""
    first, second = Symbol("i", 5), Symbol("j", 4)
    index = affine({first: a, second: b}, offset)
    divided = (floor_divide if operator == "//" else modulo)(index, divisor)
    written = tile.index_text(divided, {}, tile.Tile((), False))
    for i, j in itertools.product(range(5), range(4)):
        names = {"i": Truncating(i), "j": Truncating(j)}
        assert int(eval(written, {}, names)) == value(divided, {"i": i, "j": j})


class Truncating(int):
    """An integer of C: quotients are rounded to zero, and a remainder has the sign of what is divided."""

    def __floordiv__(self, other):
        return Truncating(abs(self) // abs(int(other)) * (1 if (self < 0) == (other < 0) else -1))

    def __mod__(self, other):
        return self - (self // other) * other

    def __add__(self, other):
        return Truncating(int(self) + int(other))

    def __sub__(self, other):
        return Truncating(int(self) - int(other))

    def __mul__(self, other):
        return Truncating(int(self) * int(other))

    def __neg__(self):
        return Truncating(-int(self))

    def __rsub__(self, other):
        return Truncating(int(other) - int(self))

    __radd__, __rmul__ = __add__, __mul__


@pytest.mark.parametrize("values", [{"n": 7, "m": 5}, {"n": 12, "m": 3}])
def test_texts_of_numbers_that_vary(values):
    """With the names, quotient and product of any language."""
    sizes = [N, 2 * N - 1, N * N * M + 3, 4 - 2 * N, -N, -N * M - 1, N // 3 * 2 + 1, (N * M + 1) % 4, N // M // 2]
    sizes += [N.apply("blocks", N, 4), (N + M) // 2 * (N - 1), 5 - N // 2, 12]
    for size in sizes:
        written = size_text(size, str, "//", " * ")
        assert eval(written, {}, values) == number(size, values), written


def test_what_is_relied_on_is_noted_each_time():
    """What is kept of an answer about plain numbers must not be of one about sizes: it would be relied on unsaid."""
    found = []
    for _ in range(2):
        scope = Scope()
        strides = scope.root("n", 7, 2), scope.root("m", 5, 2)
        delinearize(Index(), (2, 2), strides)
        found.append([str(relation) for relation, _ in scope.log])
    assert found[0] and found[0] == found[1]
