"""A program that calls from far down its own stack is compiled as from anywhere, and its limit stays what it was."""

import contextlib
import sys
import threading

import dynascope
import pytest
import torch


def from_below(frames, function):
    return function() if not frames else from_below(frames - 1, function)


def chain(x):
    for _ in range(300):
        x = 1.5 * x - 0.5
    return x


def room():
    """How many more frames fit."""
    found = 0

    def down():
        nonlocal found
        found += 1
        down()

    with contextlib.suppress(RecursionError):
        down()
    return found


def is_raised_with_the_limit(limit):
    before = room()
    sys.setrecursionlimit(limit + 500)
    try:
        return room() > before + 400
    finally:
        sys.setrecursionlimit(limit)


def test_a_long_chain_is_compiled_from_far_down():
    limit, x = sys.getrecursionlimit(), torch.ones(4)
    if not is_raised_with_the_limit(limit):
        pytest.skip("torch's compiler has run in this process; its frame hook makes CPython 3.12 count calls in Python as calls in C")
    frames = room() - 200
    call = dynascope.compile(chain, fullgraph=True)
    assert torch.equal(from_below(frames, lambda: call(x)), x)
    assert sys.getrecursionlimit() == limit


def test_several_threads_leave_the_limit_as_it_was():
    limit, x = sys.getrecursionlimit(), torch.ones(4)
    calls = [dynascope.compile(lambda x, n=n: x * n + n) for n in range(4)]
    threads = [threading.Thread(target=call, args=(x,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sys.getrecursionlimit() == limit
