"""`+` and `*` of sequences in C beside operands with methods of their own: Python asks numbers first, and `__radd__` makes one."""

import collections
import operator

import pytest
from harness import compiled


class Answers(dict):
    def __radd__(self, other):
        return "radd", other

    def __rmul__(self, other):
        return "rmul", other


class Declines(list):
    def __radd__(self, other):
        return NotImplemented


class Plain(list):
    pass


class InPlace(list):
    def __iadd__(self, other):
        return "iadd", list(other)


class Adds(list):
    def __add__(self, other):
        return "add", list(other)


class Reflected:
    __radd__, __rmul__ = Answers.__radd__, Answers.__rmul__


class Walked:
    def __iter__(self):
        return iter((7, 8))

    def __radd__(self, other):
        return NotImplemented


class Index:
    def __index__(self):
        return 2

    def __rmul__(self, other):
        return NotImplemented


LEFT = {
    "list": lambda: [1, 2],
    "tuple": lambda: (1, 2),
    "text": lambda: "ab",
    "deque": lambda: collections.deque([1]),
    "subclass": lambda: Plain([1]),
    "subclass in place": lambda: InPlace([1]),
    "subclass that adds": lambda: Adds([1]),
    "number": lambda: 3,
}
RIGHT = {
    "answers": Answers,
    "declines": lambda: Declines([3]),
    "subclass": lambda: Plain([3]),
    "no sequence": Reflected,
    "iterable": Walked,
    "index": Index,
    "number": lambda: 2,
}
OPERATORS = (operator.add, operator.iadd, operator.mul, operator.imul)


def told(function, *arguments):
    """Result, and whether the left side is what comes back."""
    try:
        left, made = function(*arguments)
    except TypeError as error:
        return str(error)
    return repr(made), type(made), made is left


@pytest.mark.may_break
@pytest.mark.parametrize("left", LEFT)
@pytest.mark.parametrize("right", RIGHT)
def test_who_is_asked_first(left, right):
    for function in OPERATORS:

        def outside(one, other, function=function):
            return one, function(one, other)

        def inside(function=function):
            one = LEFT[left]()
            return one, function(one, RIGHT[right]())

        theirs = told(outside, LEFT[left](), RIGHT[right]())
        assert told(compiled(outside), LEFT[left](), RIGHT[right]()) == theirs
        assert told(compiled(inside)) == theirs
