"""What a builtin's error says of an object: its class as CPython names it, and the words of the instruction."""

from __future__ import annotations

import collections
import datetime
import functools

import dynascope
import pytest
import torch

X = torch.ones(2)


class Box:
    pass


OBJECTS = {
    "deque": lambda: collections.deque([1]),
    "defaultdict": lambda: collections.defaultdict(int),
    "OrderedDict": collections.OrderedDict,
    "partial": lambda: functools.partial(int),
    "date": lambda: datetime.date(2000, 1, 1),
    "Size": lambda: torch.Size((1,)),
    "dtype": lambda: torch.float32,
    "device": lambda: torch.device("cpu"),
    "a class of the program's": Box,
    "list": lambda: [1],
    "tuple": lambda: (1,),
    "None": lambda: None,
}
TRIALS = {
    "attribute": lambda value: value.nothing,
    "call": lambda value: value(*[1, 2, 3, 4][: 0 if callable(value) else 1]),
    "unpacked": lambda value: [*value],
    "assigned to two": lambda value: (lambda: [a for a, b in [value]])(),
    "item": lambda value: value[7],
    "item set": lambda value: value.__class__.__setitem__(value, 7, 1),
    "length": len,
    "sum": lambda value: value + 1.5,
    "repeated": lambda value: "a" * value,
    "negative": lambda value: -value,
    "entered": lambda value: value.__enter__,
    "reversed": lambda value: list(reversed(value)),
}


@pytest.mark.may_break
@pytest.mark.parametrize("name", OBJECTS)
def test_words(name):
    make = OBJECTS[name]

    def words(x, given):
        seen = []
        for each in (make(), given):
            for trial in TRIALS.values():
                try:
                    trial(each)
                except Exception as error:
                    seen.append((type(error), error.args))
        return x + 1, seen

    assert dynascope.compile(words, backend="eager")(X, make())[1] == words(X, make())[1]


def test_a_static_method_is_called_as_its_function():
    def program(x):
        return staticmethod(torch.sin)(x)

    assert torch.equal(dynascope.compile(program, backend="eager", fullgraph=True)(X), program(X))
