"""Dicts whose keys are instances, equal to themselves alone, and forms of `typing`."""

import typing

import dynascope
import pytest
import torch


class Key:
    def __init__(self, number):
        self.number = number


first, second = Key(1), Key(2)
by_key = {first: 3, second: 4}
by_form = {typing.Union: 3, typing.Literal: 4, list: 5, "name": 6}
optional = typing.Union[str, int]  # noqa: UP007


def looked_up(x):
    return x * by_key[first]


def missing(x):
    return x * (2 if Key(1) in by_key else 5)


def in_order(x):
    return x * sum(key.number * 10**at + value for at, (key, value) in enumerate(by_key.items()))


def copied_and_added(x):
    own = dict(by_key)
    own[Key(5)] = 8
    return x * len(own) * len(by_key)


def by_a_form_of_typing(x):
    return x * by_form[typing.get_origin(optional)] * by_form["name"] * (2 if by_form.get(None) is None else 3)


@pytest.mark.parametrize("program", [looked_up, missing, in_order, copied_and_added, by_a_form_of_typing])
def test_a_dict_keyed_by_instances(program):
    x = torch.ones(2)
    assert torch.equal(dynascope.compile(program, fullgraph=True, backend="eager")(x), program(x))


def test_keys_that_are_given():
    def program(x, key):
        return x * by_key.get(key, 7)

    compiled, x = dynascope.compile(program, fullgraph=True, backend="eager"), torch.ones(2)
    for key in (second, first, Key(1), second):
        assert torch.equal(compiled(x, key), program(x, key))


def test_a_dict_that_changes():
    table = {first: 3, second: 4}

    def program(x):
        return x * table[first] + len(table)

    compiled, x = dynascope.compile(program, fullgraph=True, backend="eager"), torch.ones(2)
    assert torch.equal(compiled(x), program(x))
    table[first] = 10
    assert torch.equal(compiled(x), program(x))
    del table[first]
    table[first] = 9  # behind the other now
    assert torch.equal(compiled(x), program(x))
    table[Key(3)] = 1
    assert torch.equal(compiled(x), program(x))


ADDRESSED, SEEN = {"a": 1}, set()


def before_a_break(x, given):
    known = {id(given): 1, id(ADDRESSED): 2}
    print(end="")
    return x + 1, id(given) in known, known.get(id(ADDRESSED)), {id(given)} <= set(known)


def among_what_is_outside(x, given):
    return x + 1, id(given) in SEEN, len([each for each in (ADDRESSED, given) if id(each) not in SEEN])


@pytest.mark.may_break
@pytest.mark.parametrize("program", [before_a_break, among_what_is_outside])
def test_an_address_may_be_a_number_that_is_known_already(program):
    """A dict or list has no address that a guard could ask for; the program has taken it, as a number, before."""
    rows = [[1], [2]]
    SEEN.clear()
    SEEN.update((id(ADDRESSED), id(rows[0])))
    compiled = dynascope.compile(program, backend="eager")
    for given in (rows[0], rows[1], ADDRESSED, rows[0]):
        assert compiled(torch.ones(2), given)[1:] == program(torch.ones(2), given)[1:]
