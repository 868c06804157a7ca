"""A program that calls from far down its own stack is compiled as from anywhere, and its limit stays what it was."""

import contextlib
import sys
import threading

import dynascope
import torch


def from_below(frames, function):
    return function() if not frames else from_below(frames - 1, function)


def chain(x):
    for _ in range(300):
        x = 1.5 * x - 0.5
    return x


def room():
    """How many more frames fit. It may be fewer than the limit less the stack: torch 2.15 keeps some on CPython 3.12 where its compiler
    raised."""
    found = 0

    def down():
        nonlocal found
        found += 1
        down()

    with contextlib.suppress(RecursionError):
        down()
    return found


def test_a_long_chain_is_compiled_from_far_down():
    limit, x = sys.getrecursionlimit(), torch.ones(4)
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
