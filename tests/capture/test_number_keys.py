"""A number that varies, as a key of a dict, is told apart from the other keys and compiles nothing anew at each call."""

import collections

import dynascope
import pytest
import torch
from dynascope import recording
from torch import nn


class Count:
    number = 0


KEPT = {}
HOOKED = nn.Linear(2, 2).requires_grad_(False)


def alone(x):
    found = {}
    found[Count.number] = x
    return found[Count.number] + 1


def given_back(x):
    return {Count.number: x + 1, "name": x}, {Count.number: 1} | {Count.number + 1: 2}


def beside_plain(x):
    found = {3: x, 5.0: x * 2, "a": x}
    found[Count.number] = x * 3
    return found[5] + found[3], list(found), len(found)


def two_that_vary(x, count):
    found = {Count.number: x * 2}
    found[count] = x * 3
    return found[Count.number], len(found), count in found, 4 in found, found.get(6)


def taken_out(x):
    found = collections.OrderedDict()
    found[Count.number] = x
    found[Count.number + 1] = x * 2
    taken = found.pop(Count.number)
    del found[Count.number + 1]
    return taken, len(found), found.setdefault(Count.number, 4)


def kept_outside(x):
    KEPT[Count.number] = 1
    del KEPT[Count.number]
    return x + len(KEPT)


def missing(x):
    try:
        return {Count.number: x}[7] + 1
    except KeyError as error:
        return x, error.args


def compared(x):
    found = {Count.number: 1}
    return x, found == {4: 1}, found | {4: 2}, found.keys() & {5}, 5 in found.keys(), {**found, 6: 0}  # noqa: SIM118


def written_otherwise(x):
    computed = dict.fromkeys((4, 6), 0)
    return x, {Count.number: 1} | computed, {Count.number: 0} == computed, {(Count.number,): 1} == {(4,): 1}


def doubled(module, given, result):
    return result * 2


def hooked(x):
    handle = HOOKED.register_forward_hook(doubled)
    result = HOOKED(x)
    handle.remove()
    return result



def plain(results):
    return repr(results)


@pytest.mark.parametrize(
    "function", [alone, given_back, beside_plain, taken_out, missing, compared, written_otherwise, kept_outside]
)
def test_keys_are_those_of_each_call(function):
    fast, x = dynascope.compile(function, options={"recompile_limit": 40}), torch.arange(3.0)
    for number in [*range(8), 4, 6, True, 2, 100]:
        Count.number = number
        assert plain(fast(x)) == plain(function(x)), number


def test_two_keys_may_be_one():
    fast, x = dynascope.compile(two_that_vary, options={"recompile_limit": 40}), torch.arange(3.0)
    for number, count in [(2, 3), (3, 5), (4, 9), (9, 4), (6, 6), (7, 7), (8, 6), (6, 8), (11, 12), (11, 11)]:
        Count.number = number
        assert plain(fast(x, count)) == plain(two_that_vary(x, count)), (number, count)


def entries(function, numbers):
    """How many there are after calls with these."""
    recorder, x = recording.Recorder(), torch.arange(2.0)
    before = recording.use(recorder)
    try:
        fast = dynascope.compile(function)
        for number in numbers:
            Count.number = number
            assert plain(fast(x)) == plain(function(x))
    finally:
        recording.use(before)
    return sum(len(found.entries) for found in recorder.report().functions)


@pytest.mark.parametrize("function", [alone, given_back, taken_out, kept_outside, hooked])
def test_another_number_compiles_nothing_again(function):
    assert entries(function, range(10, 18)) <= 2
    assert not HOOKED._forward_hooks
    assert not KEPT
