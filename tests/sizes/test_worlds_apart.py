"""Worlds are possible, differ from each other, and let no root pass for another's line."""

import itertools
import math

import pytest
from dynascope.sizes import Scope, Size, evaluate
from dynascope.sizes.steps import suitable
from dynascope.sizes.worlds import COUNT, Worlds

NAMES = "abcdefghij"


def scope_of(hints, low=2):
    scope = Scope()
    for name, hint in zip(NAMES, hints, strict=False):
        scope.root(name, hint, low)
    return scope


@pytest.mark.parametrize("count, step, is_brief", [*itertools.product([1, 2, 3, 5, 9], [1, 8, 720], [False]), (2, 1, True), (3, 1, True)])
def test_no_two_roots_move_together(count, step, is_brief):
    scope = scope_of([12, 12, 7, 100, 64, 3, 2, 31, 12][:count])
    names = list(scope.roots)
    worlds = Worlds(scope, steps=dict.fromkeys(names, step), is_brief=is_brief)
    assert worlds.are_enough and not worlds.are_all and worlds.values[0] == scope.hints
    assert len({tuple(values.values()) for values in worlds.values}) == len(worlds.values)
    for values in worlds.values[1:]:
        assert all(values[name] >= 2 and (values[name] - scope.hints[name]) % step == 0 for name in names)
    for one, other in itertools.permutations(names, 2):
        assert not Worlds._is_line(one, other, worlds.values), (one, other, worlds.values)


def test_a_line_is_one_through_all_worlds():
    def is_line(*points):
        return Worlds._is_line("a", "b", [{"a": a, "b": b} for a, b in points])

    assert is_line((1, 1), (2, 3), (5, 9)) and is_line((1, 9), (3, 5), (4, 3)) and is_line((3, 3), (3, 3), (4, 5))
    assert not is_line((1, 1), (2, 3), (5, 8)) and not is_line((1, 1), (3, 2), (5, 3)) and not is_line((1, 1), (1, 2))
    assert is_line((1, 4), (2, 4), (5, 4))


def test_roots_that_nothing_varies_stay():
    scope = scope_of([12, 7])
    assert all(values["b"] == 7 and values["a"] >= 2 for values in Worlds(scope, ["a"]).values)
    assert scope.roots["b"] and scope.root("b", 7, 2) == 7
    worlds = Worlds(scope)
    assert worlds.varied == ["a"] and all(values["b"] == 7 for values in worlds.values)


def test_a_number_below_two_does_not_become_less():
    """0 and 1 are cases of their own, and sizes between are not asked of a number at hand that is not among them."""
    for hint in (0, 1, 2, 5):
        scope = scope_of([hint], low=0)
        assert all(values["a"] >= min(hint, 2) for values in Worlds(scope, reaches_down=True).values)


def test_with_reach_the_least_is_asked_too():
    scope = scope_of([50])
    assert scope.root("a", 50, 2) >= 9
    assert Worlds(scope, reaches_down=True).values[-1] == {"a": 9}
    assert Worlds(scope).values[-1]["a"] > 9


def test_worlds_of_floats_differ_in_them_alone_where_no_size_varies():
    scope = scope_of([12])
    scope.root("rate", 0.0), scope.root("scale", -3.0), scope.root("still", 0.25)
    float(scope.root("still", 0.25))
    assert scope.root("a", 12, 2) == 12
    assert not Worlds(scope).are_enough
    worlds = Worlds(scope, of_floats=True)
    assert worlds.are_enough and len(worlds.values) == COUNT
    for name in ("rate", "scale"):
        assert len({values[name] for values in worlds.values}) == COUNT
    assert all(values["a"] == 12 and values["still"] == 0.25 for values in worlds.values)
    assert scope.root("scale", -3.0) < -2.5
    assert all(values["scale"] < -2.5 for values in Worlds(scope, of_floats=True).values)


def test_a_root_that_divides_takes_divisors_alone():
    scope = scope_of([6])
    assert 24 % scope.root("a", 6, 2) == 0
    worlds = Worlds(scope)
    assert worlds.are_enough and all(24 % values["a"] == 0 for values in worlds.values)
    found = worlds.expression(tuple(24 // values["a"] for values in worlds.values))
    assert str(found) == "(24 // a)"


def test_all_of_the_numbers_that_can_be_are_taken_where_they_are_few():
    for high in (6, 7, 8, 9, 17, 18, 20):
        scope = scope_of([7])
        a = scope.root("a", 7, 2)
        assert a >= 6 and a <= max(high, 7)
        worlds = Worlds(scope)
        numbers = {values["a"] for values in worlds.values}
        assert worlds.are_enough and worlds.are_all == (high < 18) and worlds.values[0] == {"a": 7}
        assert numbers == set(range(6, max(high, 7) + 1)) if high < 18 else numbers < set(range(6, high + 1))


@pytest.mark.parametrize("hint", [9, 40])
def test_a_number_and_another_that_it_is_only_at_hand_are_told_apart(hint):
    scope = scope_of([hint])
    a = scope.root("a", hint, 2)
    worlds = Worlds(scope)
    largest = a.apply("max", a, 5)
    assert worlds.row(largest) == worlds.row(a)
    worlds.tell_apart([a, largest])
    assert worlds.row(largest) != worlds.row(a) and len(worlds.values) == COUNT + 1 and worlds.values[-1]["a"] < 5
    worlds.tell_apart([a, largest, a + 0])
    assert len(worlds.values) == COUNT + 1


FLOATS = {
    "1 over": lambda n: 1 / n,
    "some over": lambda n: 6 / n,
    "less one": lambda n: 3.0 / (n - 1),
    "root": lambda n: math.sqrt(n),
    "1 over the root": lambda n: 1.0 / math.sqrt(n),
}


@pytest.mark.parametrize("form", FLOATS)
def test_a_float_is_found_by_the_bits(form):
    scope = scope_of([7])
    worlds = Worlds(scope)
    found = worlds.expression(tuple(FLOATS[form](values["a"]) for values in worlds.values))
    assert isinstance(found, Size) and found.kind is float
    for number in (2, 3, 10, 49, 1000):
        assert evaluate(found.expression, {"a": number}) == FLOATS[form](number)


@pytest.mark.parametrize("step", [2, 8, 16, 3])
def test_what_runs_in_steps_alone_is_asked_there_and_that_is_relied_on(step):
    """Of two numbers one must be a multiple: only that is relied on."""
    scope = scope_of([step * 3, 7])

    def ask(worlds):
        rows = [values["a"] * values["b"] for values in worlds.values if values["a"] % step == 0]
        return worlds.expression(tuple(rows)) if len(rows) == len(worlds.values) else None

    worlds, found = suitable(scope, ["a", "b"], ask)
    assert [str(relation) for relation, _ in scope.log] == [f"(a % {step}) == 0"]
    assert all(values["a"] % step == 0 for values in worlds.values)
    assert evaluate(found.expression, {"a": 5, "b": 11}) == 55


def test_what_runs_at_no_other_sizes_has_no_worlds():
    scope = scope_of([7])
    assert suitable(scope, ["a"], lambda worlds: None) is None and not len(scope.log)


LINES_OF_REMAINDERS = {
    "remainder": (lambda n: n % 3, lambda r: 4 * r + 8),
    "halved": (lambda n: n % 5, lambda r: (r + 1) // 2),
    "of a half": (lambda n: n // 2 % 3, lambda r: r * 7 - 1),
}


@pytest.mark.parametrize("form", LINES_OF_REMAINDERS)
@pytest.mark.parametrize("hint", range(4, 16))
def test_what_is_computed_of_a_remainder_is_read_off_more_than_two_values(form, hint):
    remainder, compute = LINES_OF_REMAINDERS[form]
    scope = scope_of([hint])
    a = scope.root("a", hint, 2)
    _ = a % 2 == 0
    known = [remainder(a)]
    worlds = Worlds(scope)
    worlds.tell_apart(known)
    worlds.learn(known)
    assert len({*worlds.row(known[0])}) >= 3
    row = tuple(compute(remainder(values["a"])) for values in worlds.values)
    found = worlds.expression(row)
    for value in range(hint, hint + 60, 2):
        if isinstance(found, Size):
            assert evaluate(found.expression, {"a": value}) == compute(remainder(value))
