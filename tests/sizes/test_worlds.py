"""Numbers that torch computed at several sizes, read back as one expression."""

import pytest
from dynascope.sizes import Scope, Size, evaluate
from dynascope.sizes.worlds import Worlds

FORMS = {
    "constant": lambda n, m: 64,
    "root": lambda n, m: n,
    "twice": lambda n, m: 2 * n,
    "line": lambda n, m: 3 * m - 5,
    "product": lambda n, m: n * m,
    "product with a number": lambda n, m: 12 * n * m,
    "product of three": lambda n, m: 3 * n * n * m,
    "square": lambda n, m: n * n,
    "sum": lambda n, m: n + m,
    "difference": lambda n, m: n - m + 3,
    "convolution": lambda n, m: (n + 2 - 3) // 2 + 1,
    "half": lambda n, m: m // 2,
    "pooled with dilation": lambda n, m: (n - 2 * 2 - 1) // 3 + 1,
    "patches": lambda n, m: (n - 16) // 16 + 1,
    "patches with padding": lambda n, m: (n + 2) // 8,
    "halved twice and doubled": lambda n, m: 2 * (m // 4),
    "the last element": lambda n, m: n * m - 1,
    "larger by half": lambda n, m: 3 * n // 2,
    "three quarters": lambda n, m: 3 * m // 4,
    "larger by a third": lambda n, m: 4 * n // 3,
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("hints", [(7, 5), (64, 128), (2, 3), (1000, 12), (16, 17)])
def test_the_form_is_found(form, hints):
    scope = Scope()
    n, m = scope.root("n", hints[0], 2), scope.root("m", hints[1], 2)
    worlds = Worlds(scope)
    compute = FORMS[form]
    found = worlds.expression(tuple(compute(values["n"], values["m"]) for values in worlds.values))
    while found is None and worlds.grow():  # two forms fitted
        found = worlds.expression(tuple(compute(values["n"], values["m"]) for values in worlds.values))
    wanted = compute(n, m)
    assert found is not None
    for first, second in ((2, 3), (9, 10), (31, 64), (100, 99), (63, 78), (97, 33)):
        values = {"n": first, "m": second}
        number = evaluate(found.expression, values) if isinstance(found, Size) else found
        assert number == (evaluate(wanted.expression, values) if isinstance(wanted, Size) else wanted)
    assert not len(scope.log)


@pytest.mark.parametrize("hint", range(40, 60))
def test_numbers_of_the_program_that_are_the_same_in_all_worlds_get_another_one(hint):
    scope = Scope()
    n = scope.root("n", hint, 2)
    worlds = Worlds(scope, is_brief=True)
    computed = [n % 4 // 2, n // 2, 2 * (n // 4), n // 4 * 4]
    worlds.tell_apart(computed)
    rows = [worlds.row(each) for each in computed]
    assert len(set(rows)) == 4 and all(len(set(row)) > 1 for row in rows)


def test_what_is_dealt_out_evenly():
    scope = Scope()
    n = scope.root("n", 2, 2)
    assert n <= 6
    worlds = Worlds(scope)
    found = worlds.expression(tuple(3600 // values["n"] ** 2 for values in worlds.values))
    assert str(found.expression) == str((3600 // (n * n)).expression)


def test_a_few_values_are_all_asked():
    scope = Scope()
    n = scope.root("n", 6, 2)
    assert n >= 6 and n <= 7
    worlds = Worlds(scope)
    assert worlds.are_enough and [values["n"] for values in worlds.values] == [6, 7]


@pytest.mark.parametrize("hints", [(7, 5), (3, 5), (64, 64), (2, 3)])
@pytest.mark.parametrize("choose", [max, min])
def test_the_larger_of_two_is_not_the_first(hints, choose):
    """Sentences that are padded to the longest, whichever that is."""
    scope = Scope()
    scope.root("n", hints[0], 2), scope.root("m", hints[1], 2)
    worlds = Worlds(scope)
    found = worlds.expression(tuple(choose(values["n"], values["m"]) for values in worlds.values))
    for n, m in ((2, 3), (10, 9), (31, 31)):
        assert evaluate(found.expression, {"n": n, "m": m}) == choose(n, m)


def test_what_has_no_form_is_not_guessed():
    scope = Scope()
    scope.root("n", 7, 2)
    worlds = Worlds(scope)
    assert worlds.expression(tuple(values["n"] ** 2 % 97 for values in worlds.values)) is None
    assert worlds.expression(tuple(values["n"] / 3 for values in worlds.values)) is None


def test_worlds_keep_what_was_relied_on():
    scope = Scope()
    n = scope.root("n", 48, 2)
    assert n % 8 == 0 and n <= 100
    for values in Worlds(scope).values:
        assert values["n"] % 8 == 0 and values["n"] <= 100


def test_a_root_that_is_the_same_in_all_worlds_is_no_constant():
    """The smaller of 3 and `m`, while `n` is 3: what is asked about `m` alone says nothing of `n`."""
    scope = Scope()
    n, m = scope.root("n", 3, 2), scope.root("m", 3, 2)
    worlds = Worlds(scope, ["m"], reaches_down=True)
    assert all(worlds.row(n)[0] == number for number in worlds.row(n))
    assert worlds.expression(tuple(min(3, number) for number in worlds.row(m))) is None


def test_a_fixed_root_has_no_other_world():
    scope = Scope()
    n = scope.root("n", 48, 2)
    assert n == 48
    assert not Worlds(scope).are_enough


def test_a_step_that_was_tried_leaves_no_other_remainder_the_same():
    """Multiples of 16 alone: what is rounded to multiples of 3 must still show."""
    scope = Scope()
    scope.root("n", 4, 2)
    values = [values["n"] for values in Worlds(scope, ["n"], {"n": 16}).values]
    assert {value % 16 for value in values} == {4} and {value % 3 for value in values} == {0, 1, 2}
