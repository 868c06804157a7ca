"""Descriptors of the program's own, and subclasses of `property`, `classmethod` and `staticmethod` that bind in another way."""

import abc
import functools
import sys

import dynascope
import pytest
import torch
from harness import compiled
from test_outside_protocols import assert_same

X = torch.ones(2)


class class_property(property):  # noqa: N801 (they are written so)
    def __get__(self, instance, owner):
        return self.fget(owner)


class ClassValue:
    def __init__(self, function):
        self.function = function

    def __get__(self, instance, owner=None):
        return self.function(owner), instance is None


class Twice(staticmethod):
    def __get__(self, instance, owner=None):
        return lambda *arguments: self.__func__(*arguments) * 2


class ForEither(classmethod):
    """A method of the object where there is one, of the class otherwise."""

    def __get__(self, instance, owner=None):
        return functools.partial(self.__func__, owner if instance is None else instance)


class ReadOnly(property):
    def __set__(self, instance, value):
        instance.tried = (self.fget.__name__, value)


class Described(abc.ABC):
    scale = 3

    @class_property
    def double(cls):  # noqa: N805
        return cls.scale * 2

    @ClassValue
    def triple(cls):  # noqa: N805
        return cls.scale * 3

    @Twice
    def add_one(x):  # noqa: N805
        return x + 1

    @ForEither
    def scaled(self, x):
        return x * self.scale

    @ReadOnly
    def fixed(self):
        return self.scale

    @abc.abstractproperty
    def size(self):
        return self.scale + 1


class Derived(Described):
    size = property(lambda self: Described.size.fget(self) * 2)

    def __init__(self):
        self.scale = 50

    @class_property
    def double(cls):  # noqa: N805
        return super().scale + 1


def through_the_object(x, given):
    return x * given.double, given.triple, given.add_one(x), given.scaled(x), given.fixed, given.size


def through_the_class(x, given):
    cls = type(given)
    return x * cls.double, cls.triple, cls.add_one(x), cls.scaled(x), Described.double


def written(x, given):
    given.fixed = 4
    return x * given.fixed, given.tried


@pytest.mark.parametrize("program", [through_the_object, through_the_class, written])
def test_they_bind_as_they_say(program):
    call = compiled(program)
    for _ in range(3):
        assert_same(program(X, Derived()), call(X, Derived()))
    assert len(call.captures) == 1 and call.refused == []


def test_what_they_read_is_guarded():
    call, given = compiled(through_the_object), Derived()
    assert_same(through_the_object(X, given), call(X, given))
    Described.scale = 5
    try:
        assert_same(through_the_object(X, given), call(X, given))
    finally:
        Described.scale = 3


def test_what_they_do_for_a_class_is_done_at_each_call_and_not_by_guards():
    asked = []

    class Counted:
        @ClassValue
        def value(cls):  # noqa: N805
            asked.append(cls)
            return 2

    def program(x):
        return x * Counted.value[0]

    call = compiled(program)
    for _ in range(3):
        call(X)
    assert asked == [Counted] * 3


class Wrapping:
    """Class methods over what is no function."""

    scale = 3

    @classmethod
    @functools.lru_cache
    def cached(cls, more):
        return cls.scale + more

    part = classmethod(functools.partial(lambda known, cls, x: x * known * cls.scale, 2))


def test_class_methods_over_other_callables():
    call = compiled(
        through := lambda x, given: (Wrapping.part(x), given.part(x), given.cached(1), type(given).cached(2))
    )
    for _ in range(2):
        assert_same(through(X, Wrapping()), call(X, Wrapping()))
    assert len(call.captures) == 1 and call.refused == []


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="a class method is bound there, whatever it wraps")
def test_a_property_of_the_class():
    class Fields:
        first = 1

        @classmethod
        @property
        def both(cls):
            return slice(cls.first - 1, cls.first + 1)

    class More(Fields):
        first = 2

        @classmethod
        @property
        def both(cls):
            return super().both.start, cls.first

    def program(x, given):
        return x[Fields.both] + 1, x[given.both], More.both

    x = torch.arange(4.0)
    call = compiled(program)
    for _ in range(2):
        assert_same(program(x, Fields()), call(x, Fields()))
    assert len(call.captures) == 1 and call.refused == []
    Fields.both = classmethod(property(lambda cls: slice(2, 4)))
    assert call(x, Fields())[0].tolist() == [3, 4]


def test_own_lookup_of_attributes_is_not_asked_beside_the_program():
    asked = []

    class Watched:
        def __getattribute__(self, name):
            asked.append(name)
            return super().__getattribute__(name)

    def program(x, log):
        thing = Watched()
        log.append(thing)
        thing.value = x
        raise KeyError

    for _ in range(2):
        with pytest.raises(KeyError), dynascope.expected("program-raises", required=False):
            dynascope.compile(program, backend="eager")(X, [])
    assert asked == []
