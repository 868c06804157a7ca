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
