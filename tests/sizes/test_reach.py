"""How far what was found holds."""

from dynascope.sizes import Scope
from dynascope.sizes.reach import keep_above, keep_below


def relied_on(scope):
    return [str(relation) for relation, _ in scope.log]


def test_what_holds_for_all_relies_on_nothing():
    scope = Scope()
    scope.root("n", 100, 2)
    asked = []
    keep_above(scope, ["n"], lambda values: bool(asked.append(values["n"])) or True)
    assert asked == [2] and not relied_on(scope)


def test_the_least_size_is_found():
    scope = Scope()
    scope.root("n", 1000, 2)
    keep_above(scope, ["n"], lambda values: min(values["n"], 37) == 37)
    assert relied_on(scope) == ["n >= 37"]


def test_of_many_sizes_some_are_asked():
    scope = Scope()
    scope.root("n", 10**6, 2)
    asked = []
    keep_above(scope, ["n"], lambda values: bool(asked.append(values["n"])) or values["n"] >= 37)
    assert relied_on(scope) == ["n >= 37"] and len(asked) < 20


def test_only_the_root_that_needs_it():
    scope = Scope()
    scope.root("n", 9, 2), scope.root("m", 7, 2)
    keep_above(scope, ["n", "m"], lambda values: values["m"] > 4)
    assert relied_on(scope) == ["m >= 5"]


def test_sizes_that_must_not_be_one():
    scope = Scope()
    scope.root("n", 9, 2), scope.root("m", 7, 2)
    keep_above(scope, ["n", "m"], lambda values: values["n"] != values["m"])
    assert relied_on(scope) == ["m >= 3"]


def test_of_what_both_together_allow_one_is_larger():
    """An image of one column may have so many rows, where neither alone says how many."""
    scope = Scope()
    scope.root("n", 9, 2), scope.root("m", 7, 2)
    keep_above(scope, ["n", "m"], lambda values: values["n"] + values["m"] > 11)
    assert relied_on(scope) == ["n >= 8", "m >= 4"]


def test_steps_and_relations_are_kept_to():
    scope = Scope()
    scope.root("n", 44, 2)
    assert scope.root("m", 9, 2) != 2
    asked = []
    keep_above(scope, ["n", "m"], lambda values: bool(asked.append(dict(values))) or True, {"n": 8})
    assert asked == [{"n": 4, "m": 3}]


def test_a_number_up_to_which_it_runs():
    scope = Scope()
    scope.root("n", 5)
    assert keep_below(scope, "n", lambda values: values["n"] < 24)
    assert relied_on(scope) == ["n <= 23"]


def test_what_runs_with_the_number_at_hand_alone_has_no_bound():
    scope = Scope()
    scope.root("n", 5)
    assert not keep_below(scope, "n", lambda values: values["n"] in (5, 6)) and not relied_on(scope)


def test_numbers_that_are_no_sizes_are_asked_below_too():
    scope = Scope()
    scope.root("n", 5)
    keep_above(scope, ["n"], lambda values: values["n"] >= 0)
    assert relied_on(scope) == ["n >= 0"]
