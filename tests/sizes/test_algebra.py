"""Algebra, bounds and what is told of expressions, where numbers are below 0, 0, or bounded by nothing."""

import copy
import itertools
import math
import pickle

import pytest
from dynascope.sizes import Scope, Size, evaluate, known
from dynascope.sizes import expression as exact
from dynascope.sizes.functions import FUNCTIONS
from dynascope.sizes.relations import COMPARISONS, Relation
from dynascope.sizes.size import by_bounds, hint_of
from dynascope.sizes.structure import blocks_of, ceil_divide, divided, is_constant, is_multiple, order_of, same
from hypothesis import given, settings
from hypothesis import strategies as st

INTEGERS = st.integers(-12, 12)


def number(value, **values):
    return evaluate(value.expression, values) if isinstance(value, Size) else value


@settings(max_examples=200, deadline=None)
@given(st.lists(INTEGERS, min_size=4, max_size=4), INTEGERS, INTEGERS, INTEGERS, INTEGERS, st.sampled_from([-math.inf, -12, 0, 3]))
def test_arithmetic_of_numbers_of_any_sign(factors, n, m, other_n, other_m, low):
    """Roots without bounds take other ways than sizes do: what is divided may be below 0 and a divisor may be 0."""
    if low > min(n, m, other_n, other_m):
        low = -math.inf
    scope = Scope()
    first, second = scope.root("n", n, low), scope.root("m", m, low)
    a, b, c, d = factors

    def computed(n, m):
        whole = [a * n + b * m + c, a * n * m + b * n, 6 * n * n - d, d * n, n % 5 // 2]
        divisors = [divisor for divisor in (d, n, m, n * m, 2 * m) if divisor != 0]
        pairs = itertools.product(whole, divisors)
        return [part for left, right in pairs for part in (left // right, left % right, left // right // 3, left % right + left)]

    sizes = computed(first, second)
    assert [hint_of(size) for size in sizes] == computed(n, m)
    values = {"n": other_n, "m": other_m}
    if not all(relation.is_true(values) for relation, _ in scope.log):
        return
    numbers = computed(other_n, other_m)
    assert [number(size, **values) for size in sizes] == numbers
    for size, plain in zip(sizes, numbers, strict=True):
        assert not isinstance(size, Size) or size.bounds[0] <= plain <= size.bounds[1]


@pytest.mark.parametrize("name", ["//", "%", "blocks", "min", "max", "abs"])
def test_bounds_of_an_operation_are_its_least_and_its_largest_value(name):
    """All intervals of small numbers: nothing lies outside, and where both ends are met they are not wider."""
    ends = [(low, high) for low in (-7, -3, 0, 1, 4) for high in (-3, 0, 2, 7) if low <= high]
    for first, second in itertools.product(ends, ends):
        if name in ("//", "%", "blocks") and second[0] < 1 or name == "blocks" and second[0] != second[1]:
            continue
        one, other = (exact.Root("n", int, *first), exact.Root("m", int, *second))
        arguments = (one,) if name == "abs" else (one, second[0] if name == "blocks" else other)
        low, high = exact.Operation(name, arguments).bounds
        choices = itertools.product(range(first[0], first[1] + 1), range(second[0], second[1] + 1))
        values = [FUNCTIONS[name](*pair[: len(arguments)]) for pair in choices]
        if name == "blocks":  # a count is never negative
            values = [max(value, 0) for value in values]
            high = max(high, 0)
        assert low <= min(values) and max(values) <= high
        if name != "%":
            assert (low, high) == (min(values), max(values))
        else:
            assert (low, high) == (0, second[1] - 1)


@pytest.mark.parametrize("low, high", [(-3, -1), (-2, 3), (0, 0), (0, 2), (2, 5)])
def test_bounds_of_a_polynomial_hold_and_are_near(low, high):
    n = exact.of_root(exact.Root("n", int, low, high))
    for factor, offset, power in itertools.product((-3, -1, 2), (-4, 0, 5), (1, 2, 3)):
        polynomial = exact.add(exact.multiply(exact.power(n, power), factor), offset)
        values = [factor * value**power + offset for value in range(low, high + 1)]
        least, most = polynomial.bounds
        assert least <= min(values) and max(values) <= most
        if power == 1 or low >= 0:
            assert (least, most) == (min(values), max(values))


def test_a_product_less_one_of_its_factors_is_bounded_from_below():
    two, many = exact.of_root(exact.Root("n", int, 2)), exact.of_root(exact.Root("m", int, 3))
    difference = exact.add(exact.multiply(two, many), exact.negate(two))
    assert difference.bounds == (4, math.inf) and exact.negate(difference).bounds == (-math.inf, -4)
    free = exact.of_root(exact.Root("k"))
    assert exact.add(exact.multiply(two, free), exact.negate(two)).bounds == (-math.inf, math.inf)


@pytest.mark.parametrize("low", [-math.inf, -5, 0, 2])
def test_an_even_power_says_nothing_of_what_it_is_multiplied_with(low):
    n, m = exact.of_root(exact.Root("n", int, low)), exact.of_root(exact.Root("m", int, 2))
    half = exact.floor_divide(n, 2)  # comes before roots
    product = exact.multiply(half, exact.power(m, 2))
    assert (product.bounds[0] >= 0) == (low >= 0)


MADE = {
    "//": lambda left, right: left // 3,
    "rest": lambda left, right: left - left // 2,
    "min": lambda left, right: left.apply("min", left, right),
    "max": lambda left, right: left.apply("max", left, right),
    "-": lambda left, right: 4 * left - 2 * right,
    "*": lambda left, right: left * right,
}


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(sorted(MADE)), min_size=1, max_size=4), st.sampled_from([-math.inf, -4, 0, 2]), st.data())
def test_closer_bounds_hold_for_all_numbers(names, low, data):
    scope = Scope()
    n, m = scope.root("n", 5, low), scope.root("m", 7, 2)
    made = n
    for name in names:
        other = data.draw(st.sampled_from([n, m]))
        made = MADE[name](*data.draw(st.permutations([made, other]))) - data.draw(st.sampled_from([n, m, 3]))
        if not isinstance(made, Size):
            return
    least, most = made.expression.closer_bounds
    assert least >= made.bounds[0] and most <= made.bounds[1]
    for first, second in itertools.product((-4, -3, -1, 0, 2, 3, 5, 8, 60), (2, 3, 4, 7, 60)):
        if first >= low:
            assert least <= number(made, n=first, m=second) <= most


def test_closer_bounds_know_what_a_number_is_made_of():
    scope = Scope()
    n, m = scope.root("n", 5, 2, 2**63), scope.root("m", 7, 2, 2**63)
    longest = n.apply("max", n, m)
    assert known(">=", longest, m) and known(">=", 4 * ((longest + 3) // 4), n) and known("<=", n.apply("min", n, m), m)
    assert known(">=", n, n // 2) and known("<", n - 8 * (n // 8), 8) and known(">", longest, m) is None
    assert known(">", n, n // 2) and known(">=", 3 * n - 2 * (n // 3), 5) and known(">", n, n // 2 + 1) is None
    assert longest >= n
    assert not len(scope.log)


@pytest.mark.parametrize("name", sorted(COMPARISONS.keys() - {"is"}))
def test_bounds_tell_a_comparison_exactly_where_all_numbers_agree(name):
    for low, high in itertools.combinations_with_replacement(range(-3, 4), 2):
        for right in range(-5, 6):
            answers = {COMPARISONS[name](left, right) for left in range(low, high + 1)}
            assert by_bounds(name, (low, high), right) is (answers.pop() if len(answers) == 1 else None)
    assert by_bounds(name, (2, math.inf), math.nan) is None


@pytest.mark.parametrize("name", sorted(COMPARISONS.keys() - {"is"}))
@pytest.mark.parametrize("holds_not", [False, True])
def test_relied_bounds_are_those_of_the_relation(name, holds_not):
    """A relation says nothing of other expressions, and its negation nothing that is read here."""
    scope = Scope()
    n, m = scope.root("n", 7, 2), scope.root("m", 7, 2)
    scope.rely(Relation(name, n.expression, 9, holds_not))
    wanted = {"==": (9, 9), "<": (2, 8), "<=": (2, 9), ">": (10, math.inf), ">=": (9, math.inf)}.get(name, (2, math.inf))
    assert scope.relied_bounds(n.expression) == ((2, math.inf) if holds_not else wanted)
    assert scope.relied_bounds(m.expression) == (2, math.inf)


def test_only_what_is_relied_on_to_be_one_number_is_pinned():
    scope = Scope()
    n, m, k, rate, other = (scope.root(name, hint) for name, hint in (("n", 3), ("m", 3), ("k", 3), ("rate", 0.5), ("other", 0.5)))
    for name, left, right in (("<=", n, 3), ("!=", m, 4), ("==", 2 * k, 6), ("==", n * m, 9)):
        scope.rely(Relation(name, left.expression, right))
    scope.rely(Relation("==", n.expression, m.expression))
    scope.rely(Relation("==", other.expression, 0.25, holds_not=True))
    assert scope.pinned() == frozenset()
    assert n == 3
    float(rate)
    assert scope.pinned() == {"n", "rate"} and scope.pinned(6) == frozenset() and scope.pinned(7) == {"n"}


def test_a_number_as_a_condition_is_one_that_is_not_zero():
    scope = Scope()
    zero, one = scope.root("zero", 0), scope.root("one", 1)
    assert not zero and one
    assert [str(relation) for relation, _ in scope.log] == ["zero == 0", "one != 0"]
    assert scope.root("size", 1, 1) and len(scope.log) == 2


@pytest.mark.parametrize("name", sorted(COMPARISONS.keys() - {"is"}))
def test_what_is_known_is_known_from_either_side(name):
    """Of plain numbers it is their comparison; of numbers that vary what their bounds tell, on the left or on the right."""
    scope = Scope()
    n = scope.root("n", 7, 2)
    compare = COMPARISONS[name]
    for left, right in itertools.product(range(3), repeat=2):
        assert known(name, left, right) is compare(left, right)
    for right in (0, 1):
        assert known(name, n, right) is compare(2, right) and known(name, right, n) is compare(right, 2)
        assert known(name, n + n, right) is compare(4, right) and known(name, n + 5, n + right) is compare(5, right)
    assert known(name, n, 5) is None and known(name, 5, n) is None and known(name, n, 2.5) is None
    assert known(name, scope.root("rate", 0.5), 0.5) is None and not len(scope.log)


def test_a_multiple_is_one_for_every_number():
    scope = Scope()
    n, m = scope.root("n", 48, 2), scope.root("m", 5, 2)
    assert is_multiple(48, 16) and not is_multiple(49, 16) and not is_multiple(1, 16)
    assert is_multiple(16 * n, 16) and is_multiple(16 * n + 32, 8) and is_multiple(n * m, m) and is_multiple(6 * n * m, 2 * n)
    assert not is_multiple(n, 16) and not is_multiple(16 * n + 1, 16) and not is_multiple(n * m + n, m)
    assert is_constant(3, 3) and not is_constant(4, 3) and not is_constant(m - 2, 3)
    assert same((n, 2), [n + 0, 2]) and not same((n, 2), (n, 2, 1)) and not same(n, 48) and not same(48, n) and not same(n, m)
    assert not len(scope.log)


def test_a_larger_term_comes_first_and_one_below_nothing_last():
    scope = Scope()
    n, m = scope.root("n", 7, 2), scope.root("m", 5, 2)
    assert sorted([-1 * n, 3, n, 2 * n, n * m, -1 * n * m], key=order_of) == [n * m, 2 * n, n, 3, -1 * n, -1 * n * m]
    assert not len(scope.log)


def test_factors_that_are_above_zero_are_cancelled():
    """A factor that may be 0 stays: the quotient is an error there. What is divided exactly is a number, whatever the divisor."""
    scope = Scope()
    one, free, m = scope.root("one", 3, 1), scope.root("free", 3), scope.root("m", 5, 2)
    assert str(one * m // (2 * one)) == "(m // 2)" and str((6 * m + 3) // 9) == "((2*m + 1) // 3)"
    assert exact.modulo((2 * free * m).expression, free.expression) == 0 and exact.modulo((2 * m).expression, m.expression) == 0
    assert str((free * m) // (2 * free)) == "((free*m) // (2*free))"
    assert str((m // 2) // 3) == "(m // 6)" and exact.floor_divide(0, m.expression) == 0


def test_numbers_that_are_whole_already_stay_as_they_are():
    scope = Scope()
    n, below, rate = scope.root("n", 7, 0), scope.root("below", -7, -9), scope.root("rate", -2.5)
    assert abs(n) is n and round(n) is n and math.ceil(n) is n and math.floor(n) is n and math.trunc(n) is n and +n is n
    assert abs(below) is not below and hint_of(abs(below)) == 7 and abs(below).bounds == (0, math.inf)
    wanted = {abs: 2.5, round: -2, math.ceil: -2, math.floor: -3, math.trunc: -2}
    for function, number in wanted.items():
        varying = function(rate)
        assert hint_of(varying) == number and type(hint_of(varying)) is type(number)
        assert evaluate(varying.expression, {"rate": 3.5}) == function(3.5)
    assert round(n, -1).hint == 10 and (~n).hint == -8 and (-rate).hint == 2.5 and str(-rate) == "(-rate)" and not len(scope.log)
    assert (~rate.scope.root("n", 7)).bounds == (-math.inf, -1)


@pytest.mark.parametrize("value", [-3, 4])
def test_the_text_of_an_expression_gives_its_value(value):
    scope = Scope()
    n, rate = scope.root("n", 7), scope.root("rate", 0.5)
    values = {"n": value, "rate": value / 8}
    of_floats = [-rate, -(rate * n), rate - -2.0, rate * -3, -1.0 / (rate + n), (rate + 1.0) ** 2, abs(rate), n / 3, -n / 4, 2.0**rate]
    of_integers = [-n, 1 - n, 2 * n * n - 3 * n + 1, (1 - n) // 3, (-2 * n) % 5, n & -4, n << 2]
    of_integers += [-(n // 2) * n, ~n ^ 3, n.apply("max", n, -n)]
    for size in (*of_floats, *of_integers):
        assert eval(str(size), {"math": math, **values}) == evaluate(size.expression, values), str(size)


def test_whole_and_rest_of_numbers_that_vary_rely_on_nothing():
    scope = Scope()
    n, m = scope.root("n", 48, 2), scope.root("m", 5, 2)
    assert divided(50, 16) == (3, 2) and divided(48, n) == (0, 48)
    whole, rest = divided(3 * n + 2, n)
    assert number(whole * n + rest, n=11) == 35
    assert ceil_divide(50, 16) == 4 and ceil_divide(48, 16) == 3 and blocks_of(48, 16) == 3 and blocks_of(50, 16) == 4
    for top, bottom in ((n, 16), (16, m), (n * m, m), (n, m)):
        rounded = ceil_divide(top, bottom)
        for values in ({"n": 31, "m": 8}, {"n": 32, "m": 3}):
            above, below = (number(each, **values) for each in (top, bottom))
            assert number(rounded, **values) == -(-above // below)
    assert blocks_of(16 * n, 16) == n and not len(scope.log)


def test_there_is_one_object_for_each_expression():
    """Equality is identity, so what is equal must be one, however it came to be."""
    scope, other = Scope(), Scope()
    n, m = scope.root("n", 7, 2), other.root("n", 9, 2)
    one = (2 * n + 6) // 4 + n
    assert one.expression is (((m + 3) * 2) // 4 + m).expression
    for copied in (copy.deepcopy(one.expression), pickle.loads(pickle.dumps(one.expression))):
        assert copied is one.expression
    assert n.expression is not scope.root("k", 7, 2).expression
    assert other.root("n", 9, 2).expression is not Scope().root("n", 9, 3).expression, "bounds belong to a root"


def test_numbers_that_are_equal_and_not_the_same_make_two_expressions():
    x = Scope().root("x", 1.5).expression
    made = {exact.Operation("**", (x, number), float) for number in (2, 2.0, 0.0, -0.0)}
    assert len(made) == 4
    assert exact.Operation("**", (x, 2), float) is not exact.Operation("**", (x, 2), int)


def test_expressions_are_let_go():
    before = len(exact.Polynomial._made)
    number = Scope().root("nobody_else_has_this_name", 7, 2).expression
    assert len(exact.Polynomial._made) == before + 1
    del number
    assert len(exact.Polynomial._made) == before


def test_a_comparison_of_a_quotient_is_one_of_what_is_divided():
    scope = Scope()
    n, m = scope.root("n", 7, 2), scope.root("m", 9, 2)
    assert n // 2 < 6
    assert n // 2 // 2 != 5
    assert not (n + 1) // 3 > 2
    assert n.apply("min", n, m) >= 6
    assert n.apply("min", n, n) is n
    assert [str(relation) for relation, _ in scope.log] == ["n < 12", "(n // 4) != 5", "n < 8", "n >= 6", "m >= 6"]


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_what_is_relied_on_gives_the_answer_for_other_numbers(data):
    """Whatever the log makes of a comparison: where it holds, the comparison's answer is the one at hand."""
    numbers = st.integers(2, 40)
    hints, values = ({name: data.draw(numbers) for name in "nm"} for _ in range(2))

    def compared(n, m, least, most):
        made = [n // 2, (n + m) // 3, least(n, m), most(n // 2, m), least(n // 3, 2 * m), n // 2 // 3, (n - 5) // 4, 3 * (m // 2)]
        return COMPARISONS[operator](made[which], number)

    which, number = data.draw(st.integers(0, 7)), data.draw(st.integers(-3, 30))
    operator = data.draw(st.sampled_from(["<", "<=", ">", ">=", "==", "!="]))
    scope = Scope()
    n, m = (scope.root(name, hint, 2) for name, hint in hints.items())
    answer = bool(compared(n, m, lambda *each: n.apply("min", *each), lambda *each: n.apply("max", *each)))
    assert answer is compared(*hints.values(), min, max)
    assert all(relation.is_true(hints) for relation, _ in scope.log)
    if all(relation.is_true(values) for relation, _ in scope.log):
        assert compared(*values.values(), min, max) is answer
