"""Bytecode read back as Python does what the code does."""

from __future__ import annotations

import copy

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


def joined(a, b):
    if a > 2:
        a = a - 1
        b.append(a)
    if b:
        if a:
            return a, b
    a, (c, d) = b, (a, 1)
    return a, c, d


def in_order(a, b):
    first, second = b.pop(), (a := b.pop())
    b.append(first)
    return first, second, a


def positional(a, /, b, *, c=3):
    return (a, b, c)


def outside(a):
    global COUNT
    COUNT = a
    return COUNT


def asked(a, b):
    if a not in b:
        return len(b)
    return a in b, a in (1, 2)


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
        (joined, [((3, [1]), {}), ((0, [1]), {}), ((0, []), {}), ((3, []), {})]),
        (in_order, [((1, [2, 3, 4]), {})]),
        (positional, [((1, 2), {}), ((1,), {"b": 4, "c": 5}), ((), {"a": 1, "b": 4})]),
        (outside, [((1,), {})]),
        (asked, [((1, [1, 2]), {}), ((3, [1, 2]), {})]),
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
        copied = copy.deepcopy(arguments)
        assert outcome(made, *copied, **keywords) == outcome(function, *arguments, **keywords) and copied == arguments


def test_what_is_stored_at_once_has_one_name_and_forks_that_meet_again_are_not_written_twice():
    text = decompiled(joined.__code__)
    assert text.count("return") == 2 and "value_" not in text.replace("value_1", "")


def test_loops_are_left():
    assert decompiled(looping.__code__) is None
