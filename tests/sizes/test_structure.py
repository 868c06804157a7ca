"""What is told of expressions alone holds for all values of their roots, and relies on nothing."""

from dynascope.sizes import (
    Scope,
    blocks_of,
    ceil_divide,
    divided,
    estimated,
    evaluate,
    hint_of,
    is_multiple,
    known,
    leaves,
    nominal,
    order_of,
    same,
)
from hypothesis import given, settings
from hypothesis import strategies as st


def scope_of(n=7, m=5):
    scope = Scope()
    return scope, scope.root("n", n, 2), scope.root("m", m, 2)


def at(value, **values):
    return evaluate(value.expression, values) if hasattr(value, "expression") else value


NUMBERS = st.tuples(st.integers(-3, 64), st.integers(-3, 64), st.integers(-9, 99))


@settings(max_examples=200, deadline=None)
@given(NUMBERS, NUMBERS, st.integers(2, 90), st.integers(2, 90))
def test_answers_hold_for_all_values_and_nothing_is_relied_on(left, right, n, m):
    scope, first, second = scope_of()
    sizes = [a * first + b * first * second + c for a, b, c in (left, right)]
    values = [a * n + b * n * m + c for a, b, c in (left, right)]
    for name, answer in {"<": values[0] < values[1], ">=": values[0] >= values[1], "==": values[0] == values[1]}.items():
        assert known(name, *sizes) in (None, answer)
    assert not same(*sizes) or values[0] == values[1]
    for divisor, number in ((16, 16), (3 * second, 3 * m)):
        whole, rest = divided(sizes[0], divisor)
        assert at(whole, n=n, m=m) * number + at(rest, n=n, m=m) == values[0]
        assert not is_multiple(sizes[0], divisor) or values[0] % number == 0
    assert at(ceil_divide(sizes[0], 16), n=n, m=m) == -(-values[0] // 16)
    if values[0] >= 0:
        assert at(blocks_of(sizes[0], 16), n=n, m=m) == -(-values[0] // 16)
    assert len(scope.log) == 0


def test_an_order_and_a_nominal_size_do_not_depend_on_the_hint_and_an_estimate_not_on_a_small_one():
    (_, small, _), (_, few, _), (_, large, _) = scope_of(2), scope_of(5), scope_of(9000)
    assert order_of(64 * small) == order_of(64 * large)
    assert nominal(64 * small) == nominal(64 * large) == estimated(64 * small) == estimated(64 * few) == 64 * 256
    assert estimated(64 * large) == 64 * 9000
    assert sorted([1, 64, small, 3 * small, small * small], key=order_of) == [small * small, 3 * small, small, 64, 1]


def test_what_only_python_computes_is_a_leaf():
    scope, n, m = scope_of()
    assert [str(leaf) for leaf in leaves(((n + 1) // 2 * 64).expression)] == ["n"]
    assert [str(leaf) for leaf in leaves((n.apply("math.isqrt", n) + n).expression)] == ["math.isqrt(n)", "n"]
    assert [str(leaf) for leaf in leaves(((m - n) // 2).expression)] == [str((m - n) // 2)]
    assert hint_of(blocks_of(n - 5, 16)) == 1 and [str(leaf) for leaf in leaves(blocks_of(n - 5, 16).expression)] == ["n"]
    assert len(scope.log) == 0
