"""Special methods of what is fixed in a graph: classes with a metaclass of the program's, members of its enums. They are code of the
program's as those of any object: what they do is done at each call, and what they read is asked."""

import enum
import functools
import math
import types
import typing

import pytest
import torch
from dynascope import compile
from harness import compiled

X = torch.arange(3.0)
METHODS = {
    "__bool__": (lambda a: 1 if a else 2, lambda self: False),
    "__len__": (len, lambda self: KNOWN["n"]),
    "__contains__": (lambda a: 2 in a, lambda self, other: KNOWN["n"] > 1),
    "__hash__": (hash, lambda self: KNOWN["n"]),
    "__repr__": (repr, lambda self: str(KNOWN["n"])),
    "__str__": (lambda a: f"{a}|{a!s:>4}", lambda self: str(KNOWN["n"])),
    "__format__": (lambda a: f"{a:x}", lambda self, how: how + str(KNOWN["n"])),
    "__int__": (int, lambda self: KNOWN["n"]),
    "__float__": (float, lambda self: float(KNOWN["n"])),
    "__index__": (lambda a: [5, 6, 7, 8][a], lambda self: KNOWN["n"]),
    "__abs__": (abs, lambda self: KNOWN["n"]),
    "__neg__": (lambda a: -a, lambda self: X * KNOWN["n"]),
    "__radd__": (lambda a: 1 + a, lambda self, other: other + KNOWN["n"]),
    "__gt__": (lambda a: a > 1, lambda self, other: KNOWN["n"] > 1),
    "__iadd__": (lambda a: added(a, 1), lambda self, other: other + KNOWN["n"]),
    "__rdivmod__": (lambda a: divmod(7, a), lambda self, other: (other, KNOWN["n"])),
}
KNOWN = {"n": 1}


def added(thing, number):
    thing += number
    return thing


def member_with(entries):
    class Base(enum.Enum):
        pass

    for name, entry in entries.items():
        setattr(Base, name, entry)
    return type(Base).__call__(Base, "Level", ["LOW"]).LOW


@pytest.mark.parametrize("make", [lambda entries: type("Meta", (type,), entries)("A", (), {}), member_with], ids=["class", "member"])
@pytest.mark.parametrize("name", METHODS)
def test_they_run_at_each_call(name, make):
    use, method = METHODS[name]
    told = []

    def telling(self, *others):
        told.append(name)
        return method(self, *others)

    thing = make({name: telling})
    f = compiled(lambda x: (x + 1, use(thing)))
    for KNOWN["n"] in (1, 2, 2):
        told.clear()
        expected, once = use(thing), len(told)
        found = f(X)[1]
        assert len(told) == 2 * once and f.compilation.codes == []
        assert torch.equal(found, expected) if isinstance(found, torch.Tensor) else found == expected
    setattr(type(thing) if isinstance(thing, type) else type(thing).__mro__[1], name, lambda self, *others: method(self, *others))
    f(X)
    assert len(told) == 2 * once


class Pair(typing.NamedTuple):
    """Its methods are set by the test."""

    first: int = 1


@pytest.mark.parametrize("name, use", {"__int__": int, "__float__": float, "__rdivmod__": METHODS["__rdivmod__"][0]}.items())
def test_those_of_a_named_tuple_too(name, use, monkeypatch):
    monkeypatch.setattr(Pair, name, METHODS[name][1], raising=False)
    f = compile(lambda x: (x + 1, use(Pair())), fullgraph=True)
    for KNOWN["n"] in (1, 2):
        assert f(X)[1] == use(Pair())


@pytest.mark.expects("foreign-call")
def test_mathematics_asks_them():
    member = member_with({"__floor__": lambda self: KNOWN["n"]})
    f = compile(lambda x: (x + 1, math.floor(member)))
    for KNOWN["n"] in (1, 2):
        assert f(X)[1] == KNOWN["n"]


def test_a_member_takes_its_words_from_the_library():
    class Level(enum.IntEnum):
        LOW = 1

        def __repr__(self):
            return "low"

    f = compile(lambda x: (x, str(Level.LOW), f"{Level.LOW}", f"{Level.LOW:03d}", repr(Level.LOW), Level.LOW + 1), fullgraph=True)
    assert f(X)[1:] == ("1", "1", "001", "low", 2)


def test_a_property_of_a_class_comes_before_what_its_object_holds():
    class Layer:
        scale, bias = 2, None

        def shift(self):
            return 1

    layer = Layer()
    layer.scale, layer.shift, layer.bias = 3, lambda: 5, 1
    f = compile(lambda x: x * layer.scale + layer.shift() + layer.bias, fullgraph=True)
    for change in (lambda: None, lambda: setattr(Layer, "scale", property(lambda self: 10)),
                   lambda: setattr(Layer, "shift", property(lambda self: lambda: 20)),
                   lambda: setattr(Layer, "bias", property(lambda self: 30))):  # fmt: skip
        change()
        assert torch.equal(f(X), X * layer.scale + layer.shift() + layer.bias)


def test_what_the_class_holds_under_the_name_may_change(compilations):
    class Meter:
        total, last = 0, None

    meter = Meter()
    meter.total, meter.last = 2, 3
    f = compile(lambda x: x * meter.total + meter.last, fullgraph=True)
    for Meter.total in range(4):
        Meter.last = Meter.total
        assert torch.equal(f(X), X * 2 + 3)
    assert len(compilations) == 1


def test_another_function_answers_for_a_module():
    library = types.ModuleType("a_library")
    library.__getattr__ = len
    f = compile(lambda x: x + library.abc, fullgraph=True)
    assert f(X).tolist() == [3, 4, 5]
    library.__getattr__ = lambda name: 10
    assert f(X).tolist() == [10, 11, 12]


def test_what_is_put_beside_a_partial():
    def scaled(x, by):
        "of the function"
        return x * by

    twice = functools.partial(scaled, by=2)
    f = compile(lambda x: (twice(x), getattr(twice, "__name__", "no name"), hasattr(twice, "note") and twice.note), fullgraph=True)
    assert f(X)[1:] == ("no name", False)
    functools.update_wrapper(twice, scaled)
    assert f(X)[1:] == ("scaled", False)
    for twice.note in (1, 2):
        assert f(X)[1:] == ("scaled", twice.note)


def test_positions_that_a_class_declares_for_patterns():
    class Pair:
        __match_args__ = ("left", "right")
        left, right = 1, 2

    def f(x):
        match Pair():
            case Pair(first, second):
                return x * first - second

    compiled = compile(f, fullgraph=True)
    for Pair.__match_args__ in (("left", "right"), ("right", "left")):
        assert torch.equal(compiled(X), f(X))


TEXTS = {
    "percent": lambda a: ("%s" % a, "%r" % a, "%s%%%r %d" % (a, a, 1)),  # noqa: UP031
    "named": lambda a: "%(a)s" % {"a": a},  # noqa: UP031
    "padded": lambda a: "%4s" % a,  # noqa: UP031
    "bytes": lambda a: b"%a" % a,
    "list": lambda a: (str([a]), "%s" % [a], repr({a: (a,)})),  # noqa: UP031
    "format": lambda a: ("{} {!r}".format(a, a), f"{[a]}"),  # noqa: UP032
}


@pytest.mark.may_break
@pytest.mark.parametrize("name", TEXTS)
def test_texts_with_them_are_written_at_each_call(name):
    told = []
    words = {"__repr__": lambda self: told.append("repr") or f"r{len(told)}", "__str__": lambda self: told.append("str") or "s"}
    member = member_with(words)
    function = compile(lambda x: TEXTS[name](member), backend="eager")
    for _ in range(2):
        told.clear()
        expected, said = TEXTS[name](member), told.copy()
        told.clear()
        assert (function(X), told) == (expected, said)
