"""What `isinstance` says of abstract classes and protocols is asked again where it may be something else by now."""

import abc
import collections.abc
import typing

import dynascope
import pytest
import torch


def make_classes():
    class Walks(abc.ABC):
        @abc.abstractmethod
        def walk(self):
            pass

    class Cat:
        pass

    return Walks, Cat


X = torch.ones(2)


@pytest.mark.parametrize("way", ["instance", "subclass", "several", "inside"])
def test_a_class_that_is_registered_later(way):
    walks, cat = make_classes()

    def function(x, given):
        asked = {
            "instance": lambda: isinstance(given, walks),
            "subclass": lambda: issubclass(cat, walks),
            "several": lambda: isinstance(given, (int, walks)),
            "inside": lambda: isinstance(cat(), walks),
        }[way]
        return x * 2 if asked() else x * 3

    compiled = dynascope.compile(function, backend="eager")
    assert torch.equal(compiled(X, cat()), X * 3)
    walks.register(cat)
    assert torch.equal(compiled(X, cat()), X * 2)
    assert torch.equal(compiled(X, cat()), X * 2)


def test_a_class_of_the_program_that_is_registered_with_one_of_a_library():
    _, cat = make_classes()

    def function(x, given):
        return x * 2 if isinstance(given, collections.abc.Mapping) else x * 3

    compiled = dynascope.compile(function, backend="eager")
    assert torch.equal(compiled(X, cat()), X * 3)
    collections.abc.Mapping.register(cat)
    assert torch.equal(compiled(X, cat()), X * 2)


@typing.runtime_checkable
class Goes(typing.Protocol):
    go: int


def test_a_protocol_asks_for_what_an_instance_has():
    _, cat = make_classes()

    def function(x, given):
        return x * 2 if isinstance(given, Goes) else x * 3

    compiled = dynascope.compile(function, backend="eager")
    given = cat()
    assert torch.equal(compiled(X, given), X * 3)
    given.go = 1
    assert torch.equal(compiled(X, given), X * 2)
    assert torch.equal(compiled(X, cat()), X * 3)


@pytest.mark.expects("foreign-value")
def test_a_protocol_asks_for_what_the_program_has_just_set():
    _, cat = make_classes()

    def function(x, given):
        given.go = 1
        return x * 2 if isinstance(given, Goes) else x * 3

    compiled = dynascope.compile(function, backend="eager")
    assert torch.equal(compiled(X, cat()), X * 2)


class OfNoInts(type):
    def __instancecheck__(cls, instance):
        return type(instance) is not int


class Kept(metaclass=OfNoInts):
    pass


class AlsoKept(type):
    def __instancecheck__(cls, instance):
        return super().__instancecheck__(instance) or isinstance(instance, Kept)

    def __subclasscheck__(cls, other):
        return super().__subclasscheck__(other) or other is int


class Open(metaclass=AlsoKept):
    pass


class Below(Open):
    pass


class Odd(type):
    def __instancecheck__(cls, instance):
        return [1]

    def __subclasscheck__(cls, other):
        raise ValueError(other)


class Refusing(metaclass=Odd):
    pass


def test_metaclasses_that_answer_for_their_classes():
    def function(x, *given):
        told = [[isinstance(each, (kind)) for kind in (Kept, (str, Kept), Open, Below, Refusing, (Refusing, Open))] for each in given]
        told += [isinstance(x, Kept), isinstance(Below(), Open), [issubclass(each, Open) for each in (Below, int, bool, Kept)]]
        try:
            issubclass(int, (str, Refusing))
        except ValueError as error:
            told.append(error.args)
        return x + 1, told

    given = torch.ones(2), 3, True, "text", Open(), Below(), Kept(), None, [1], int
    compiled = dynascope.compile(function, backend="eager", fullgraph=True)
    assert compiled(*given)[1] == function(*given)[1]
    before = OfNoInts.__instancecheck__
    OfNoInts.__instancecheck__ = lambda cls, instance: instance is None
    try:
        assert compiled(*given)[1] == function(*given)[1]
    finally:
        OfNoInts.__instancecheck__ = before
