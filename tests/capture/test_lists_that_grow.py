"""Logs and buffers from outside that the program puts something into at each call: one graph, whatever they hold by then."""

import collections

import dynascope
import pytest
import torch
from dynascope import recording

X = torch.arange(1.0, 5.0)


class Held(list):
    """A list of the program's own."""


def appended(held, x):
    held.append(x.mean())
    held.extend([x.sum(), 1])
    held += (x,)
    return x * 2


def last(held, x):
    held.append(x)
    return held[-1] * 2 + (1 if held else 0)


def last_before(held, x):
    previous = held[-1]
    held.append(previous + x)
    return previous


def counted(held, x):
    held.append(x)
    return x * len(held) if len(held) > 2 else x


def numbers(held, x):
    held.append(x.sum().item())
    return x + 1


def entries(function, *calls):
    recorder = recording.Recorder()
    before = recording.use(recorder)
    try:
        compiled = dynascope.compile(function)
        results = [compiled(*call) for call in calls]
    finally:
        recording.use(before)
    return results, sum(len(found.entries) for found in recorder.report().functions)


CASES = [(function, make, 1) for function in (appended, numbers) for make in (list, Held, collections.deque)]
CASES += [(last, list, 1), (last_before, list, 1), (counted, list, 3)]


@pytest.mark.parametrize(("function", "make", "most"), CASES)
def test_a_list_that_grows_compiles_no_more(function, make, most):
    mine, theirs = make([X]), make([X])
    results, count = entries(function, *[(mine, X * at) for at in range(7)])
    for at, result in enumerate(results):
        assert torch.equal(result, function(theirs, X * at))
    assert type(mine) is type(theirs)
    assert len(mine) == len(theirs)
    for one, other in zip(mine, theirs, strict=True):
        torch.testing.assert_close(one, other)
    assert count <= most


def test_what_was_put_there_is_taken_back_with_its_instruction():
    def program(held, x):
        held.append(x)
        held.extend([print(end="") or 1, 2])
        return held[-2:], len(held)

    mine, theirs = [], []
    compiled = dynascope.compile(program)
    with dynascope.expected("print-call", "unsupported-attribute", "foreign-call", "foreign-value", required=False):
        for at in range(4):
            assert str(compiled(mine, X * at)) == str(program(theirs, X * at))
    assert str(mine) == str(theirs)


def test_two_names_of_one_list():
    def program(one, other, x):
        one.append(x * 2)
        before = len(other)
        other.append(x * 3)
        return one[-1], x * before

    compiled = dynascope.compile(program)
    mine, theirs = ([], []), ([], [])
    for left, right in ((0, 1), (0, 1), (0, 1), (0, 0), (1, 1), (1, 0)):
        expected = program(theirs[left], theirs[right], X)
        assert str(compiled(mine[left], mine[right], X)) == str(expected)
    assert str(mine) == str(theirs)


def test_an_item_that_is_not_there():
    def program(held, x):
        try:
            found = held[-1]
        except IndexError:
            found = x
        held.append(x + found)
        return found

    compiled, mine, theirs = dynascope.compile(program), [], []
    for at in range(3):
        assert torch.equal(compiled(mine, X * at), program(theirs, X * at))
    mine.clear()
    theirs.clear()
    assert torch.equal(compiled(mine, X), program(theirs, X))
