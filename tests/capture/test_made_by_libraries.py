"""What the standard library makes: functions by class, classes by name, groups of an iterator."""

import collections
import functools
import itertools

import pytest
import torch
from harness import compiled

X = torch.arange(1.0, 5.0)


@functools.singledispatch
def shown(value, extra=0):
    return extra


@shown.register
def _(value: torch.Tensor, extra=0):
    return value * 2 + extra


@shown.register
def _(value: int, extra=0):
    return value + 10


def by_class(x):
    return shown(x) + shown(3) + shown("text", extra=5)


def named_tuple_made(x):
    Pair = collections.namedtuple("Pair", "first second", defaults=[1])
    pair = Pair(x + 1)
    first, second = pair
    return pair.first * pair.second + first + pair._replace(second=3).second, pair._asdict()["second"], Pair.__name__


def groups(x):
    found = [(key, [x * n for n in group]) for key, group in itertools.groupby([1, 1, 2, 3, 3], lambda n: n % 2)]
    plain = [(key, len(list(group))) for key, group in itertools.groupby("aabbba")]
    return found, plain


def groups_left_early(x):
    kept = []
    for key, group in itertools.groupby([1, 1, 1, 2, 2, 3]):
        kept.append((key, next(group)))
    every = [group for _, group in itertools.groupby([1, 1, 2])]
    return x, kept, [list(group) for group in every]


PROGRAMS = [by_class, named_tuple_made, groups, groups_left_early]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_one_graph_with_eagers_result(program):
    dispatch = compiled(program)
    for _ in range(2):
        assert_equal(dispatch(X), program(X))
    assert dispatch.compilation.codes == [] and len(dispatch.captures) == 1


def assert_equal(mine, theirs):
    assert type(mine) is type(theirs)
    if isinstance(mine, torch.Tensor):
        assert torch.equal(mine, theirs)
    elif isinstance(mine, (list, tuple)):
        assert len(mine) == len(theirs)
        for one, other in zip(mine, theirs, strict=True):
            assert_equal(one, other)
    else:
        assert mine == theirs


def test_a_function_that_is_registered_later_is_seen():
    @functools.singledispatch
    def scaled(value):
        return value

    def program(x):
        return scaled(x) + 1

    dispatch = compiled(program)
    assert torch.equal(dispatch(X), X + 1)
    scaled.register(torch.Tensor, lambda value: value * 3)
    assert torch.equal(dispatch(X), X * 3 + 1)
