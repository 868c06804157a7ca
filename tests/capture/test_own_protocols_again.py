"""Special methods of a program's own classes that Python calls once more than one would think, or that must not be called again."""

import dynascope
import pytest
import torch
from test_outside_protocols import assert_same

X = torch.ones(2)


class FromTheStart:
    """An iterator that begins again whenever it is asked for one."""

    def __init__(self, count):
        self.count = count

    def __iter__(self):
        self.at = 0
        return self

    def __next__(self):
        if self.at >= self.count:
            raise StopIteration
        self.at += 1
        return self.at


class Told(Exception):
    """Its arguments are others than those that it was made of."""

    made = 0

    def __init__(self, text, value):
        super().__init__(text)
        Told.made += 1
        self.value = value


class Subscripted:
    def __class_getitem__(cls, key):
        return cls, key


def the_rest(x):
    first, *rest, last = FromTheStart(4)
    return first, rest, last, x + 1


def text_of_an_error(x):
    before = Told.made
    try:
        raise Told("no", x * 2)
    except Told as error:
        return repr(error), str(error), error.args, error.value, Told.made - before


def subscript(x):
    found = Subscripted(), Subscripted[int]
    return found[1][1], found[1][0] is Subscripted, x + 1


@pytest.mark.may_break
@pytest.mark.parametrize("program", [the_rest, text_of_an_error, subscript])
def test_as_python(program):
    compiled = dynascope.compile(program, backend="eager")
    for _ in range(2):
        assert_same(compiled(X), program(X))
