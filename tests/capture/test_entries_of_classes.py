"""What a class has under a name becomes something of another kind between two calls: what Python makes of it, handed on or called."""

import functools
import types

import dynascope
import pytest
import torch


class Described:
    def __get__(self, instance, owner=None):
        return "described", instance is None


KINDS = {
    "gone": None,
    "number": lambda: 3,
    "list": lambda: [1],
    "function": lambda: lambda *given: len(given),
    "static method": lambda: staticmethod(lambda *given: len(given)),
    "class method": lambda: classmethod(lambda *given: len(given)),
    "property": lambda: property(lambda self: "a property"),
    "descriptor": Described,
    "class": lambda: int,
    "function in C": lambda: len,
    "method in C": lambda: [3, 3].count,
    "partial": lambda: functools.partial(max, 5),
}


def by_name(x, thing):
    return x + 1, thing.entry


def by_the_class(x, thing):
    return x + 1, type(thing).entry


def with_default(x, thing):
    return x + 1, getattr(thing, "entry", "none")


def called(x, thing):
    return x + 1, thing.entry(3)


def told(found):
    if isinstance(found, types.MethodType):
        return "bound", type(found.__self__).__name__, told(found.__func__)
    if isinstance(found, (types.FunctionType, types.BuiltinFunctionType, functools.partial, property, Described)):
        return type(found).__name__
    return found


def outcome(function, thing):
    try:
        return told(function(torch.ones(1), thing)[1])
    except (AttributeError, TypeError) as error:
        return type(error), str(error)


def put(owner, kind):
    if "entry" in vars(owner):
        del owner.entry
    if KINDS[kind] is not None:
        owner.entry = KINDS[kind]()


@pytest.mark.parametrize("program", [by_name, by_the_class, with_default, called])
@pytest.mark.parametrize("is_inherited", [False, True])
@pytest.mark.parametrize("before", KINDS)
def test_it_becomes_another(program, is_inherited, before):
    def outcomes(function):
        found = []
        for after in KINDS:
            base = type("Base", (), {})
            owner = type("Owner", (base,), {})
            place = base if is_inherited else owner
            called = function(program)
            for kind in (before, after, before):
                put(place, kind)
                found.append((after, outcome(called, owner())))
        return found

    codes = ("foreign-call", "foreign-value", "unsupported-attribute", "program-raises", "not-callable", "call-did-not-fail")
    with dynascope.expected(*codes, required=False):
        assert outcomes(lambda each: dynascope.compile(each, backend="eager")) == outcomes(lambda each: each)
