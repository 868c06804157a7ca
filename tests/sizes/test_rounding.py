"""Floats computed of one integer, rounded: the integers that Python gives, and of what they are relied on."""

import math

import pytest
from dynascope.sizes import Scope, Size, evaluate
from dynascope.sizes.expression import Polynomial
from dynascope.sizes.rounding import MOST
from hypothesis import given, settings
from hypothesis import strategies as st

ROUNDED = {"math.ceil": math.ceil, "math.floor": math.floor, "math.trunc": math.trunc, "int": int}


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(sorted(ROUNDED)), st.integers(1, 2**20 - 1), st.integers(0, 2000) | st.integers(0, MOST))
def test_a_quotient_is_rounded_as_python_does(name, divisor, other):
    scope = Scope()
    found = (scope.root("n", 7, 0) / divisor).apply(name, scope.root("n", 7, 0) / divisor)
    assert found == ROUNDED[name](7 / divisor) and "/" not in str(found).replace("//", "")
    assert evaluate(found.expression, {"n": other}) == ROUNDED[name](other / divisor)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(sorted(ROUNDED)), st.integers(1, 2**20 - 1), st.integers(0, 12), st.integers(0, 2000) | st.integers(0, MOST))
def test_a_product_with_few_bits_is_rounded_as_python_does(name, times, halvings, other):
    scope, factor = Scope(), times / 2**halvings
    product = scope.root("n", 7, 0) * factor
    found = product.apply(name, product)
    assert isinstance(found, Size) and isinstance(found.expression, Polynomial)
    assert evaluate(found.expression, {"n": other}) == ROUNDED[name](other * factor)


def test_one_relation_serves_all():
    scope = Scope()
    n = scope.root("n", 9, 2)
    made = [math.ceil(n / 16), (n * 0.75).__trunc__(), math.floor(1.5 * n), math.ceil(n / 3)]
    assert [str(each) for each in made] == ["((n + 15) // 16)", "((3*n) // 4)", "((3*n) // 2)", "((n + 2) // 3)"]
    assert [str(relation) for relation, _ in scope.log] == [f"n <= {MOST}"]


@pytest.mark.parametrize("make", [lambda n, m: n * 0.1, lambda n, m: n / m, lambda n, m: n / 0.5, lambda n, m: m / 2, lambda n, m: n / -2])
def test_what_is_not_exact_or_may_be_below_zero_stays_as_it_is(make):
    scope = Scope()
    number = make(scope.root("n", 9, 2), scope.root("m", -3))
    before = len(scope.log)
    found = number.apply("math.floor", number)
    assert "math.floor" in str(found) and found == math.floor(number.hint) and len(scope.log) == before + 1


def test_a_number_that_is_too_large_at_hand_is_left_to_python():
    scope = Scope()
    n = scope.root("n", 2**60 + 1, 2)
    assert "math.ceil" in str(math.ceil(n / 3)) and not len(scope.log)
