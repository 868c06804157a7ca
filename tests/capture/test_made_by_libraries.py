"""What the standard library makes: functions by class, classes by name, groups of an iterator."""

import collections
import functools
import itertools

import dynascope
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


def deque_inside(x):
    d = collections.deque([x])
    d.append(x + 1)
    d.appendleft(x * 2)
    first = d.popleft()
    d.extend([x, x * 3])
    d.rotate()
    d[1] = x * 5
    return first, len(d), list(d), d, d[0], bool(d), [t.sum() for t in d.copy()]


def deque_with_a_limit(x):
    d = collections.deque(maxlen=2)
    for k in range(4):
        d.append(x * k)
    d.extendleft([x, x * 7, x * 8])
    return d, [t for t in d]  # noqa: C416


def empty_deque(x):
    d = collections.deque()
    try:
        d.pop()
    except IndexError as error:
        return x, str(error), 3 in d


PROGRAMS = [deque_inside, deque_with_a_limit, empty_deque, by_class, named_tuple_made, groups, groups_left_early]


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
    elif isinstance(mine, (list, tuple, collections.deque)):
        assert getattr(mine, "maxlen", None) == getattr(theirs, "maxlen", None)
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


def stacked(x, frames):
    frames.append(x)
    return torch.stack(list(frames)).sum(0)


def test_frames_of_a_full_deque_are_one_graph():
    mine = collections.deque([X * k for k in range(3)], maxlen=3)
    theirs = mine.copy()
    dispatch = compiled(stacked)
    for k in range(4):
        assert torch.equal(dispatch(X * k + 1, mine), stacked(X * k + 1, theirs))
        assert_equal(mine, theirs)
    assert dispatch.compilation.codes == [] and len(dispatch.captures) == 1


@pytest.mark.expects("foreign-value")
def test_reading_a_deque_that_is_seen_to_grow_is_left_to_python():
    mine, theirs = collections.deque(), collections.deque()
    by_ours = dynascope.compile(stacked, backend="eager")
    for k in range(4):
        assert torch.equal(by_ours(X * k + 1, mine), stacked(X * k + 1, theirs))
        assert_equal(mine, theirs)


@pytest.mark.skipif(not hasattr(torch.nn, "LinearCrossEntropyLoss"), reason="torch has no such loss")
def test_a_loss_with_parameters_draws_them_at_each_call():
    def function(x):
        loss = torch.nn.LinearCrossEntropyLoss(4, 3)
        return x + 1, *loss.parameters(), torch.rand(2)

    dispatch = compiled(function)
    results = []
    for run in (function, dispatch, dispatch):
        torch.manual_seed(3)
        results.append(run(torch.ones(2)))
    for mine in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], mine, strict=True))
    assert results[1][1] is not results[2][1]
