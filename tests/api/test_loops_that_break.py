"""A loop that breaks at every turn goes one call deeper each time; long loops must not run out of stack."""

import sys

import dynascope
import pytest
import torch

X = torch.arange(6.0).reshape(2, 3)


def until(x):
    turns = 0
    while x.sum() < 20000:
        x = x + 1
        turns += 1
    return x, turns


def taking(x, items):
    turns = 0
    while True:
        try:
            x = x + next(items)
        except StopIteration:
            break
        turns += 1
    return x, turns


def iterating(x, items):
    for item in items:
        x = x + item
    return x


@pytest.mark.parametrize(
    ("program", "make", "code"),
    [
        (until, lambda: (X,), "data-dependent-branch"),
        (taking, lambda: (X, iter(range(2000))), "foreign-value"),
        (taking, lambda: (X, (each for each in range(2000))), "foreign-value"),
        (iterating, lambda: (X, (each % 3 for each in range(2000))), "foreign-value"),
        (iterating, lambda: (X, map(float, range(2000))), "foreign-value"),
    ],
)
def test_long_loop(program, make, code):
    compiled = dynascope.compile(program, backend="eager")
    with dynascope.expected(code):
        for _ in range(2):
            expected, got = program(*make()), compiled(*make())
            torch.testing.assert_close(got, expected)


@pytest.mark.expects("data-dependent-branch")
def test_deep_caller():
    compiled = dynascope.compile(until, backend="eager")

    def call(depth):
        return compiled(X) if depth == 0 else call(depth - 1)

    depth = sys.getrecursionlimit() // 2
    torch.testing.assert_close(call(depth), until(X))
