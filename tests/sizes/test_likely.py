"""Relations between numbers that both vary, tried where a program does not run with any."""

from dynascope.sizes import Scope
from dynascope.sizes.likely import likely
from dynascope.sizes.worlds import Worlds


def test_the_end_of_a_size_comes_before_its_divisors_and_what_does_not_hold_is_no_question():
    scope = Scope()
    t, w, n = scope.root("t", 24, 2), scope.root("w", 4), scope.root("n", 30)
    tried = []
    for rely in likely([(w, 8), (w, t), (t // w, t), (n, t)], scope.pinned()):
        count = len(scope.log)
        if rely():
            tried.append([str(relation) for relation, _ in scope.log][count:])
        scope.log.take_back(count)
    assert [words[-1] for words in tried] == ["t - w >= 0", "(t % w) == 0", "(t % w) == 0"]


def test_worlds_where_one_number_divides_another():
    scope = Scope()
    t, w = scope.root("t", 30, 2), scope.root("w", 5, 2)
    assert t % w == 0
    worlds = Worlds(scope)
    assert worlds.are_enough and len({(values["t"], values["w"]) for values in worlds.values}) == len(worlds.values)
    assert all(values["t"] % values["w"] == 0 for values in worlds.values)
    assert len({values["w"] for values in worlds.values}) > 2


def test_worlds_of_numbers_that_come_to_no_more_than_so_much_together():
    scope = Scope()
    n, start = scope.root("n", 6, 2), scope.root("start", 8, 0)
    assert n + start <= 32
    worlds = Worlds(scope)
    assert worlds.are_enough and all(values["n"] + values["start"] <= 32 for values in worlds.values)
    form = worlds.expression(tuple(values["n"] + values["start"] for values in worlds.values))
    assert str(form) == str(n + start)
