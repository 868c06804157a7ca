"""Deques that are written while they are gone through: an item may become another one, none may come or go (CPython's
`_collectionsmodule.c` counts that)."""

from collections import deque
from itertools import chain, groupby

import dynascope
import pytest
import torch


def replaced(x, queue):
    found = []
    for item in queue:
        queue[-1] = 5
        found.append(item)
    return x * found[0], found


def replaced_across_a_break(x, queue):
    found = []
    for item in queue:
        queue[-1] = 5
        found.append(item)
        x = x + x.sum().is_nonzero()
    return x * found[0], found


def replaced_from_the_end(x, queue):
    found = []
    for item in reversed(queue):
        queue[0] = 7
        found.append(item)
    return x * found[0], found


def in_groups(x, queue):
    found = []
    for key, group in groupby(queue, lambda item: item > 2):
        queue[-1] = 9
        found.append((key, list(group)))
    return x + 1, found


def chained(x, queue):
    found = []
    for item in chain(queue, queue):
        queue[1] = item + 10
        found.append(item)
    return x + found[-1], found


def turned(x, queue):
    return x + 1, [queue.rotate(1) or item for item in queue]


def put_in_and_taken_out(x, queue):
    found = []
    for item in queue:
        queue.append(item)
        queue.popleft()
        found.append(item)
    return x + 1, found


def put_in(x, queue):
    return x + 1, [queue.append(3) or item for item in queue]


def copied(x, queue):
    other = queue.copy()
    other[0] = 8
    return x * other[0], list(other)


REPLACED = [replaced, replaced_from_the_end, in_groups, chained, copied]
MOVED = [turned, put_in_and_taken_out, put_in]


def answer(function, x, queue):
    try:
        result, found = function(x, queue)
    except RuntimeError as error:
        return str(error), queue
    return result.tolist(), found, queue


@pytest.mark.parametrize("is_made_inside", [False, True])
@pytest.mark.parametrize("function", REPLACED)
def test_items_become_others(function, is_made_inside):
    def made(x, queue):
        return function(x, deque([1, 2, 3]) if is_made_inside else queue)

    compiled = dynascope.compile(made, backend="eager")
    for _ in range(2):
        queue, other = deque([1, 2, 3], maxlen=3), deque([1, 2, 3], maxlen=3)
        assert answer(compiled, torch.ones(2), queue) == answer(made, torch.ones(2), other)


@pytest.mark.may_break
@pytest.mark.parametrize("function", [replaced_across_a_break, *MOVED])
def test_pythons_own_iterator_goes_on_or_says_so(function):
    compiled = dynascope.compile(function, backend="eager")
    for _ in range(2):
        queue, other = deque([1, 2, 3]), deque([1, 2, 3])
        assert answer(compiled, torch.ones(2), queue) == answer(function, torch.ones(2), other)
