"""Sizes in the form that what was relied on gives them: equal at every value that keeps to it, and one form where they are equal by it."""

from dynascope.sizes import Scope, evaluate, same, solved
from dynascope.sizes.expression import plain
from hypothesis import given
from hypothesis import strategies as st


def scope_of(**hints):
    scope = Scope()
    return scope, *(scope.root(name, hint, low=2) for name, hint in hints.items())


@given(st.integers(1, 40), st.integers(2, 40), st.sampled_from([2, 3, 4, 16]), st.integers(0, 3), st.integers(-3, 3))
def test_both_forms_are_equal_wherever_the_relations_hold(count, m_hint, divisor, power, added):
    scope, n, m = scope_of(n=divisor * count if count * divisor > 1 else divisor * 2, m=m_hint)
    assert n % divisor == 0
    values = [n**power * m + added, (n + added) // divisor * m, n % (2 * divisor) + m, (n * m) // (2 * divisor) + n, -(-n // divisor)]
    for value in values:
        other = solved(value)
        for times in range(1, 9):
            at = {"n": times * divisor, "m": m_hint}
            exact = evaluate(value.expression, at)
            assert evaluate(getattr(other, "expression", other), at) == exact
            assert evaluate(plain(getattr(other, "expression", other)), at) == exact
    assert len(scope.log) == 1


def test_groups_of_channels_are_what_they_divide():
    scope, n, width = scope_of(n=128, width=64)
    assert (2 * n + 64) % 32 == 0
    channels, grouped = (2 * n + 64) * width, 32 * ((2 * n + 64) // 32) * width
    assert not same(channels, grouped)
    assert same(solved(channels), solved(grouped))
    assert str(solved(grouped)) == str(channels) == "2*n*width + 64*width"


def test_two_halves_that_are_relied_on_to_be_equal_are_one_size():
    for rounded_up in (False, True):
        scope, n = scope_of(n=64)
        half = (n + rounded_up) // 2
        assert n - half == half
        assert not same(n - half, half)
        assert same(solved(n - half), solved(half)) and solved(half).expression.bounds[0] == 1


def test_a_root_that_is_relied_on_to_be_another_is_that():
    scope, n, m, k = scope_of(n=14, m=7, k=28)
    assert n == 2 * m and k == 2 * n
    assert same(solved(k + n), 6 * m) and same(solved(m), m)


def test_what_is_relied_on_to_be_a_constant_or_known_only_when_it_runs_is_left():
    scope, n, m = scope_of(n=8, m=16)
    scope.late.add("m")
    assert n == 8 and m % 16 == 0
    assert solved(n) is n and solved(m) is m and solved(5) == 5


def test_relations_say_it_as_the_program_does():
    scope, n = scope_of(n=64)
    assert n % 16 == 0
    assert solved(n // 16 + n) < 100
    assert [str(relation) for relation, _ in scope.log] == ["(n % 16) == 0", "17*(n // 16) < 100"]


def test_what_is_taken_back_gives_no_form():
    scope, n = scope_of(n=64)
    assert n % 16 == 0
    assert not same(solved(n), n)
    scope.log.take_back(0)
    assert same(solved(n), n)
