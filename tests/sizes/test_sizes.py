"""Sizes: every expression is the number that Python computes, and every decision holds wherever its relations do."""

import math
import operator

import pytest
from dynascope.sizes import Scope, Size, evaluate, hint_of, roots_of, substitute
from dynascope.sizes.relations import Relation
from hypothesis import assume, given, settings
from hypothesis import strategies as st

INTEGER_OPERATORS = [operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod]
COMPARISONS = [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge]


@st.composite
def programs(draw):
    """A list of steps (operator, operand, operand) over n, m, constants and earlier results."""
    steps = []
    for at in range(draw(st.integers(1, 8))):
        operand = st.one_of(
            st.sampled_from(["n", "m"]), st.integers(-4, 70), st.integers(0, max(at - 1, 0)).map(lambda i: ("step", i))
        )
        steps.append((draw(st.sampled_from(INTEGER_OPERATORS)), draw(operand), draw(operand)))
    return steps


def run(steps, n, m):
    results = []

    def operand(which):
        if isinstance(which, tuple):
            return results[which[1]] if which[1] < len(results) else 1
        return {"n": n, "m": m}.get(which, which)

    for function, left, right in steps:
        results.append(function(operand(left), operand(right)))
    return results


def scope_of(n, m, low=2):
    scope = Scope()
    return scope, scope.root("n", n, low), scope.root("m", m, low)


@settings(max_examples=400, deadline=None)
@given(programs(), st.integers(2, 50), st.integers(2, 50), st.integers(2, 50), st.integers(2, 50))
def test_an_expression_is_the_number_python_computes_for_every_value_its_relations_admit(steps, n, m, other_n, other_m):
    scope, first, second = scope_of(n, m)
    try:
        wanted = run(steps, n, m)
    except ZeroDivisionError:
        with pytest.raises(ZeroDivisionError):
            run(steps, first, second)
        return
    sizes = run(steps, first, second)
    assert [hint_of(size) for size in sizes] == wanted
    values = {"n": other_n, "m": other_m}
    assume(all(relation.is_true(values) for relation, _ in scope.log))
    expected = run(steps, other_n, other_m)
    assert [evaluate(s.expression, values) if isinstance(s, Size) else s for s in sizes] == expected
    for size, number in zip(sizes, expected, strict=True):
        if isinstance(size, Size):
            low, high = size.bounds
            assert low <= number <= high
            assert eval(str(size), {"math": math, **values}) == number


@settings(max_examples=400, deadline=None)
@given(
    programs(),
    st.sampled_from(COMPARISONS),
    st.integers(2, 30),
    st.integers(2, 30),
    st.integers(2, 30),
    st.integers(2, 30),
)
def test_a_decision_holds_wherever_its_relations_hold(steps, compare, n, m, other_n, other_m):
    scope, first, second = scope_of(n, m)
    try:
        sizes = run(steps, first, second)
        plain = run(steps, other_n, other_m)
    except ZeroDivisionError:
        return
    answers = [compare(size, 12) for size in sizes] + [compare(sizes[0], sizes[-1])]
    values = {"n": other_n, "m": other_m}
    assume(all(relation.is_true(values) for relation, _ in scope.log))
    assert answers == [compare(number, 12) for number in plain] + [compare(plain[0], plain[-1])]


def test_equal_expressions_are_equal_without_an_assumption():
    scope, n, m = scope_of(7, 5)
    assert 2 * n + n == 3 * n
    assert (6 * n) // 3 == 2 * n
    assert (n * m) // m == n
    assert n * m // (2 * m) == n // 2
    assert (64 * n) % 8 == 0
    assert (n // 2) // 3 == n // 6
    assert n > 1 and n * 64 >= 128 and n != 0 and not n < 2
    assert max(n, 1) is n
    assert n * m > n and n * m - n >= 2 and 64 * n * m > m * 64
    assert len(scope.log) == 0


def test_a_decision_that_needs_the_hint_is_logged_once_with_its_place():
    stack = []
    scope = Scope(lambda: tuple(stack))
    n = scope.root("n", 700, 2)
    stack.append("model.py:12")
    assert n > 512 and 64 * n > 64 * 512
    stack.append("model.py:13")
    assert n > 512
    ((relation, where),) = scope.log
    assert str(relation) == "n > 512" and where == ("model.py:12",)


def test_whoever_needs_the_number_fixes_it():
    scope, n, m = scope_of(7, 5)
    assert list(range(n))[-1] == 6
    assert [str(relation) for relation, _ in scope.log] == ["n == 7"]
    assert "abcdefgh"[m] == "f"
    assert [str(relation) for relation, _ in scope.log] == ["n == 7", "m == 5"]


@pytest.mark.parametrize("rate", [0.5, 0.0, -0.0, math.nan, math.inf])
def test_floats_are_not_rearranged_and_are_fixed_by_their_bits(rate):
    scope = Scope()
    r = scope.root("r", rate)
    tripled = r * 3.0 + r
    assert str(tripled) == "((r * 3.0) + r)"
    wanted = rate * 3.0 + rate
    assert tripled.hint == wanted or (wanted != wanted and tripled.hint != tripled.hint)
    float(r)
    ((relation, _),) = scope.log
    assert relation.is_true({"r": rate})
    assert not relation.is_true({"r": 1.5})
    if rate == 0:
        assert not relation.is_true({"r": -rate})


def test_a_comparison_of_floats_and_its_negation_both_hold_of_their_own_values_only():
    scope = Scope()
    r = scope.root("r", math.nan)
    assert not r < 1.0
    ((relation, _),) = scope.log
    assert relation == Relation("<", r.expression, 1.0, holds_not=True)
    assert relation.is_true({"r": math.nan}) and relation.is_true({"r": 2.0}) and not relation.is_true({"r": 0.5})


@pytest.mark.parametrize("name", ["math.sqrt", "math.floor", "math.log2", "float", "abs", "round", "int"])
def test_functions_mean_what_python_means(name):
    scope = Scope()
    n = scope.root("n", 7)
    size = n.apply(name, n)
    from dynascope.sizes.functions import FUNCTIONS

    for value in (1, 2, 9, 100):
        assert evaluate(size.expression, {"n": value}) == FUNCTIONS[name](value)


def test_division_by_a_size_is_of_one_that_is_not_zero():
    scope = Scope()
    n = scope.root("n", 3)
    assert str(10 // n) == "(10 // n)"
    assert [str(relation) for relation, _ in scope.log] == ["n != 0"]
    with pytest.raises(ZeroDivisionError):
        _ = 10 // scope.root("zero", 0)


def test_roots_can_be_replaced():
    scope, n, m = scope_of(8, 5)
    expression = ((n * m + n // 3) % 4 + m).expression
    replaced = substitute(expression, lambda root: 8 if root.name == "n" else root)
    for value in range(2, 20):
        numbers = {"n": 8, "m": value}
        again = replaced if isinstance(replaced, int) else evaluate(replaced, numbers)
        assert again == evaluate(expression, numbers)
    assert {root.name for root in roots_of([n, m, 3])} == {"n", "m"}


def test_sizes_know_no_torch():
    import subprocess
    import sys

    code = "import dynascope.sizes, sys; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
