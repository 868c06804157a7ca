"""Special methods that are no plain functions: static methods, class methods, objects that are called, of known objects and of new."""

import pytest
import torch
from harness import compiled
from test_outside_protocols import assert_same

X = torch.arange(4.0)
SEEN = []


class Static:
    """Everything of it leaves the object out."""

    @staticmethod
    def __call__(a, b=1):
        return a * 2 + b

    @staticmethod
    def __getitem__(index):
        return index * 3

    @classmethod
    def __add__(cls, other):
        return cls.__name__, other

    @staticmethod
    def __iadd__(other):
        return "iadd", other

    @staticmethod
    def __len__():
        return 3

    @staticmethod
    def __bool__():
        return False

    @staticmethod
    def __contains__(item):
        return item is None

    @staticmethod
    def __iter__():
        return iter([1, 2])

    @classmethod
    def __enter__(cls):
        return cls

    @staticmethod
    def __exit__(*error):
        SEEN.append(len(error))

    @staticmethod
    def __getattr__(name):
        return name + "!"

    @staticmethod
    def __setattr__(name, value):
        SEEN.append((name, value))

    @staticmethod
    def __delattr__(name):
        SEEN.append(name)

    @staticmethod
    def __setitem__(key, value):
        SEEN.append((key, value))

    @staticmethod
    def __delitem__(key):
        SEEN.append(key)

    @staticmethod
    def __format__(specification):
        return "static" + specification

    @staticmethod
    def __index__():
        return 2

    @staticmethod
    def __next__():
        return 4


class ByObject:
    __call__ = Static()
    __getitem__ = Static()


KNOWN, BY_OBJECT = Static(), ByObject()


def with_block(made, x):
    with made as entered:
        y = x + 1
    return y, entered.__name__


def changed(made, x):
    made.first = 1
    del made.second
    made[2] = 3
    del made[1]
    made += x
    return made, x + 1


PROGRAMS = {
    "called": lambda made, x: made(x),
    "called by name": lambda made, x: made(b=2, a=x),
    "item": lambda made, x: (made[x], made[2]),
    "added": lambda made, x: made + x,
    "asked": lambda made, x: (len(made), bool(made), 1 if made else 2, None in made, 1 in made, made.foo, x + 1),
    "walked": lambda made, x: (list(made), *made, next(made), x + 1),
    "text": lambda made, x: (f"{made:>3}", x + 1),
    "index": lambda made, x: ([1, 2, 3][made], x + 1),
    "with": with_block,
    "changed": changed,
}


@pytest.mark.may_break
@pytest.mark.parametrize("new", [False, True], ids=["known", "new"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_what_leaves_the_object_out(name, new):
    program = PROGRAMS[name]

    def run(x):
        return program(Static() if new else KNOWN, x)

    SEEN.clear()
    expected, seen = run(X), list(SEEN)
    SEEN.clear()
    assert_same(compiled(run)(X), expected)
    assert seen == SEEN


@pytest.mark.may_break
def test_objects_that_are_called():
    def run(x):
        return BY_OBJECT(x), BY_OBJECT[x]

    assert_same(compiled(run)(X), run(X))
