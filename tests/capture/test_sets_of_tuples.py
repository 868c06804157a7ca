"""Sets with tuples, floats and bytes: their hashes are their own, so their order is known as that of numbers and texts is."""

from __future__ import annotations

import dynascope
import pytest
import torch


@pytest.mark.may_break
def test_the_order_is_pythons():
    def program(x, k):
        items = {1, k, 3}
        items.discard(3)
        items.add((k, "a"))
        united = {(k, each) for each in range(9)} | {(k, "z"), 1.5, b"q"}
        return items | frozenset([k, 5]), list(items), united, list(united), x + 1

    compiled = dynascope.compile(program, backend="eager")
    for k in (2, 0, 3, 5):
        ours, theirs = compiled(torch.ones(2), k), program(torch.ones(2), k)
        assert list(map(list, ours[:4])) == list(map(list, theirs[:4]))


@pytest.mark.may_break
@pytest.mark.parametrize("number", [float("nan"), 0.5, -0.0])
def test_what_equals_nothing_is_found_as_itself(number):
    def program(x, number):
        items = {(1, 2), number, (number, 1)}
        return [each is number for each in items], number in items, (number, 1) in items, x + 1

    ours, theirs = dynascope.compile(program, backend="eager")(torch.ones(2), number), program(torch.ones(2), number)
    assert ours[:3] == theirs[:3]


def test_a_view_of_a_dictionary_makes_a_set_of_a_frozen_one():
    def program(x):
        keys, frozen, plain = {1: 1, 2: 2}.keys(), frozenset((1, 5)), {1, 5}
        found = [frozen & keys, keys & frozen, frozen | keys, frozen - keys, keys ^ frozen, frozen ^ keys, plain & keys]
        return x + 1, [(type(each), sorted(each)) for each in (*found, frozen & plain, plain & frozen)]

    assert dynascope.compile(program, backend="eager")(torch.ones(2))[1] == program(torch.ones(2))[1]
