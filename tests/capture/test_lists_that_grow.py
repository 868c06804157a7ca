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


def first_taken(held, x):
    return held.popleft() * x


def last_taken(held, x):
    return held.pop() * x + held[-1]


def both_ends(held, x):
    held.append(7)
    first, last, before = held.popleft(), held.pop(), held.pop()
    held.append(first)
    return x * first + before, last


def moved_to_the_end(held, x):
    block = held.popleft()
    x = x * block
    held.append(block)
    return x


def taken_while_filled(held, x):
    while held:
        x = x + held.popleft()
        if x.shape[0] == 4:
            break
    return x


TAKEN = [(first_taken, collections.deque, 2), (last_taken, list, 2), (last_taken, collections.deque, 2)]
TAKEN += [(both_ends, collections.deque, 2), (moved_to_the_end, collections.deque, 2), (taken_while_filled, collections.deque, 2)]


@pytest.mark.parametrize(("function", "make", "most"), TAKEN)
def test_what_is_taken_from_an_end_says_nothing_of_the_rest(function, make, most):
    mine, theirs = make(range(3, 40)), make(range(3, 40))
    results, count = entries(function, *[(mine, X + at) for at in range(12)])
    for at, result in enumerate(results):
        assert str(result) == str(function(theirs, X + at))
        assert type(mine) is type(theirs)
    assert list(mine) == list(theirs)
    assert count <= most


@pytest.mark.parametrize("make", [list, collections.deque])
@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_more_taken_than_there_is(make, count):
    def program(held, x):
        taken = []
        try:
            taken.append(held.pop())
            taken.append(held.pop())
            taken.append(held.pop())
        except IndexError as error:
            taken.append(str(error))
        held.append(x)
        return taken, bool(held)

    mine, theirs = make(range(count)), make(range(count))
    compiled = dynascope.compile(program)
    with dynascope.expected("foreign-value", "program-raises", required=False):
        for _ in range(3):
            assert str(compiled(mine, X)) == str(program(theirs, X))
            assert str(mine) == str(theirs)


def test_a_break_between_taking_and_looking():
    def program(held, x):
        first = held.popleft()
        last = held.pop()
        print(end="")
        return first, last, list(held), len(held), x * first

    mine, theirs = collections.deque(range(9)), collections.deque(range(9))
    compiled = dynascope.compile(program)
    with dynascope.expected("print-call", "foreign-value", "foreign-call", required=False):
        for _ in range(3):
            assert str(compiled(mine, X)) == str(program(theirs, X))
    assert mine == theirs


def test_an_instruction_that_took_something_and_is_undone():
    def program(held, x):
        return [held.pop(), held.pop(), held.append(x), len(held), held[-2:], print(end="")], x + 1

    mine, theirs = list(range(9)), list(range(9))
    compiled = dynascope.compile(program)
    with dynascope.expected("print-call", "foreign-value", "foreign-call", required=False):
        for _ in range(3):
            assert str(compiled(mine, X)) == str(program(theirs, X))
    assert str(mine) == str(theirs)


def test_a_queue_that_is_full_forgets_its_first():
    def program(held, x):
        held.append(x)
        return held.popleft() * 2

    mine, theirs = (collections.deque([X, X + 1], maxlen=2) for _ in range(2))
    compiled = dynascope.compile(program)
    with dynascope.expected("foreign-value", required=False):
        for at in range(4):
            assert torch.equal(compiled(mine, X * at), program(theirs, X * at))
            mine.append(X), theirs.append(X)
    assert str(mine) == str(theirs)


def replay(memory, x):
    memory.append(x)
    before = len(memory)
    last = memory[-1]
    memory.append(last + before)
    return last * len(memory) + memory[-2], memory.maxlen, len(memory) > 3


def ends_of_full_or_not(memory, x):
    result = x + memory[0] * 2 + memory[-1]
    memory.append(x)
    return result, len(memory), bool(memory)


@pytest.mark.parametrize("function", [replay, ends_of_full_or_not])
@pytest.mark.parametrize("limit", [5, 8, 100])
def test_deques_from_which_something_falls_off(function, limit):
    """Replay buffers: how long one is and what lies at its ends were breaks until it was full."""
    plain, given = (collections.deque([torch.ones(2), torch.zeros(2)], maxlen=limit) for _ in range(2))
    call = dynascope.compile(function, fullgraph=True)
    for turn in range(9):
        x = torch.full((2,), float(turn))
        expected, found = function(plain, x), call(given, x)
        assert torch.equal(found[0], expected[0])
        assert found[1:] == expected[1:]
        assert all(map(torch.equal, plain, given))
        assert len(plain) == len(given)


def test_deques_of_another_greatest_length():
    call = dynascope.compile(replay, fullgraph=True)
    for limit in (3, 4, 9, 2, None):
        plain, given = (collections.deque([torch.ones(2)], maxlen=limit) for _ in range(2))
        x = torch.ones(2)
        expected, found = replay(plain, x), call(given, x)
        assert torch.equal(found[0], expected[0])
        assert found[1:] == expected[1:]
        assert len(given) == len(plain)
        assert given.maxlen == limit


def test_the_greatest_length_of_one_made_inside():
    def function(x):
        made = collections.deque([x], maxlen=3)
        return x * made.maxlen, collections.deque().maxlen

    result, nothing = dynascope.compile(function, fullgraph=True)(torch.ones(2))
    assert torch.equal(result, torch.full((2,), 3.0)) and nothing is None
