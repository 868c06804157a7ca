"""`dict[str, int]()`: what a class with arguments for its types makes."""

import collections
import types

import pytest
import torch
from harness import compiled


class Labelled:
    __class_getitem__ = classmethod(types.GenericAlias)

    def __init__(self, value):
        self.value = value


class Slotted(Labelled):
    __slots__ = ("value",)


class Plain:
    __slots__ = ("value",)
    __class_getitem__ = classmethod(types.GenericAlias)

    def __init__(self, value):
        self.value = value


class Numbers(list):
    pass


class Sealed(Labelled):
    def __setattr__(self, name, value):
        if name == "__orig_class__":
            raise LookupError(name)
        super().__setattr__(name, value)


Integers = list[int]


def containers(x):
    held = dict[str, int](a=2), list[int]((1, 2)), set[int]([3]), collections.deque[int]([1, 2], maxlen=1), Integers([4])
    groups = collections.defaultdict[str, list](list)
    groups["x"].append(x * 2)
    return x * held[0]["a"] + held[1][1] + len(held[2]) + held[3][0] + held[4][0], groups["x"], type(held[0]) is dict


def objects(x):
    made = Labelled[int](2), Slotted[str](3), Plain[int](4), Numbers[int]([5])
    aliases = [getattr(each, "__orig_class__", None) for each in made]
    return x * made[0].value + made[1].value + made[2].value + made[3][0], aliases == [Labelled[int], Slotted[str], None, Numbers[int]]


def raises(x):
    try:
        return Sealed[int](2)
    except LookupError as error:
        return x + len(str(error))


@pytest.mark.parametrize("program", [containers, objects, raises])
def test_is_what_its_class_makes(program):
    function = compiled(program)
    x = torch.ones(3)
    for _ in range(2):
        torch.testing.assert_close(function(x), program(x))
    assert function.compilation.codes == [] and not function.refused
