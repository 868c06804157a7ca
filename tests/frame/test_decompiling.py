"""Bytecode read back as Python does what the code does."""

from __future__ import annotations

import pytest
from dynascope.frame.decompiling import decompiled


def arithmetic(a, b, c):
    d = {"x": a, "y": (b, -c)}
    return [d["y"][1] * c, not a, a is b, a + b <= c]


def forked(a, *rest, key=None):
    if a > 3:
        return rest
    if key is None:
        return a.bit_length() + max(a, len(rest))
    found = [a]
    found.append(key)
    return found


def raising(a):
    if a:
        return a
    raise ValueError("none")


def looping(a):
    for item in a:
        print(item)
    return a


def outcome(function, *arguments, **keywords):
    try:
        return function(*arguments, **keywords)
    except Exception as error:
        return type(error), str(error)


@pytest.mark.parametrize(
    ("function", "calls"),
    [
        (arithmetic, [((1, 2, 3), {}), ((0, 0, 2.5), {})]),
        (forked, [((4, 1), {}), ((2, 1, 5), {}), ((2,), {"key": 7})]),
        (raising, [((1,), {}), ((0,), {})]),
    ],
)
def test_the_text_runs_as_the_code_does(function, calls):
    text = decompiled(function.__code__)
    assert text is not None
    scope = {}
    exec(text, scope)
    made = scope[function.__name__]
    made.__kwdefaults__ = function.__kwdefaults__
    for arguments, keywords in calls:
        assert outcome(made, *arguments, **keywords) == outcome(function, *arguments, **keywords)


def test_loops_are_left():
    assert decompiled(looping.__code__) is None
