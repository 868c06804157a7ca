"""Guards without torch: the C program, the reference in Python and the words all say the same."""

import math
import sys
import types

import pytest
from dynascope.frame import hook
from dynascope.guards.check import asked_again, compile_guards, parameter_names
from dynascope.guards.failure import explain_failure
from dynascope.guards.guard import (
    DictionaryKeysAre,
    Equals,
    Guard,
    HasNoAttribute,
    HasNoKey,
    IdentityIs,
    IsSameObject,
    LengthIs,
    NotSameObject,
    TruthIs,
    TypeIs,
)
from dynascope.guards.source import (
    AttributeSource,
    CellSource,
    ConstantSource,
    DictionaryAttributeSource,
    FrameValues,
    GlobalSource,
    ItemSource,
    LocalSource,
    ModuleMemberSource,
    TypeSource,
    VariableSource,
)

X, Y = LocalSource("x"), LocalSource("y")
hook.use_values(FrameValues)


class Thing:
    def __init__(self, **members):
        self.__dict__.update(members)

    def __bool__(self):
        raise ArithmeticError

    def method(self):
        return None


class Items(dict):
    def __getitem__(self, key):
        return "overridden"


def both(x, y=None):
    return None


def holds_everywhere(guard, x, y=None, function=both):
    """The answer of all ways to ask, which must be one."""
    values = FrameValues({"x": x, "y": y}, function.__globals__, vars(__import__("builtins")))
    answers = {guard.holds(values), explain_failure([guard], values) is None}
    if hook.is_native():
        answers.add(compile_guards([guard], function.__code__).holds((x, y), function))
    assert len(answers) == 1, (guard.describe(), answers)
    return answers.pop()


class Function:
    pass


thing = Thing()
PREDICATES = [
    (TypeIs(int), [1, 0], [True, 1.0, None]),
    (TypeIs(Thing), [thing], [Thing, type("Thing", (Thing,), {})()]),
    (IdentityIs(thing), [thing], [Thing(), None]),
    (IdentityIs(None), [None], [0, thing]),
    (IdentityIs(len), [len], [max]),
    (IdentityIs(both), [both], [lambda: 0]),
    (Equals(1), [1], [True, 1.0, 2, "1"]),
    (Equals(0.0), [0.0], [-0.0, 0, False]),
    (Equals(math.nan), [math.nan, -math.nan], [0.0]),
    (Equals((1, 2.0)), [(1, 2.0)], [(1, 2), (True, 2.0), [1, 2.0]]),
    (Equals([1, [2]]), [[1, [2]]], [[1, [2.0]], (1, [2])]),
    (Equals({"a": 1}), [{"a": 1}], [{"a": True}, {"a": 1, "b": 2}]),
    (Equals(frozenset([1])), [frozenset([1])], [frozenset([True]), {1}]),
    (Equals(slice(1, None)), [slice(1, None)], [slice(1, 2), slice(True, None)]),
    (Equals("text"), ["te" + "xt"[:2]], ["tex"]),
    (TruthIs(True), [1, [0], "a"], [0, [], "", thing]),
    (TruthIs(False), [0, []], [1, thing]),
    (LengthIs(2), [(1, 2), [1, 2], {1: 1, 2: 2}, "ab"], [(), 5]),
    (DictionaryKeysAre(("a", "b")), [{"a": 1, "b": 2}], [{"b": 1, "a": 2}, {"a": 1}, [], {}]),
    (DictionaryKeysAre((1,)), [{1: 0}], [{True: 0}, {1.0: 0}]),
    (HasNoKey("a"), [{}, {"b": 1}], [{"a": 1}, [], None]),
    (HasNoAttribute("missing"), [thing, 5], [Thing(missing=1)]),
]


@pytest.mark.parametrize("predicate, good, bad", PREDICATES, ids=lambda case: getattr(case, "check", lambda: "")())
def test_predicates(predicate, good, bad):
    guard = Guard((X,), predicate)
    assert guard.describe().startswith("`x` ")
    assert [holds_everywhere(guard, value) for value in good] == [True] * len(good)
    assert [holds_everywhere(guard, value) for value in bad] == [False] * len(bad)
    for value in bad:
        words = explain_failure([guard], FrameValues({"x": value}, {}, {}))[1]
        assert "`x`" in words and " at 0x" not in words


def test_pairs():
    same, different = Guard((X, Y), IsSameObject()), Guard((X, Y), NotSameObject())
    assert holds_everywhere(same, thing, thing) and not holds_everywhere(same, thing, 5)
    assert holds_everywhere(different, thing, 5) and not holds_everywhere(different, thing, thing)
    assert same.describe() == "`x` and `y` are the same object"


SOURCES = [
    (AttributeSource(X, "a"), Thing(a=1)),
    (AttributeSource(AttributeSource(X, "a"), "b"), Thing(a=Thing(b=1))),
    (DictionaryAttributeSource(X, "a"), Thing(a=1)),
    (ModuleMemberSource(X, "_parameters", "w"), Thing(_parameters={"w": 1})),
    (ItemSource(X, 1), [0, 1]),
    (ItemSource(X, -1), (0, 1)),
    (ItemSource(X, "k"), {"k": 1}),
    (ItemSource(X, 5), {5: 1}),
    (ItemSource(X, "k"), Items(k=1)),
    (ItemSource(X, 0), b"\x01"),
    (GlobalSource("ONE"), None),
    (GlobalSource("ONE", __name__), None),
    (ConstantSource("one", 1), None),
]
ONE = 1


@pytest.mark.parametrize("source, base", SOURCES, ids=lambda case: str(case)[:20])
def test_sources(source, base):
    assert holds_everywhere(Guard((source,), Equals(1)), base)
    assert not holds_everywhere(Guard((source,), Equals(2)), base)
    assert holds_everywhere(Guard((TypeSource(source),), IdentityIs(int)), base)


@pytest.mark.parametrize("source", [source for source, base in SOURCES if base is not None], ids=str)
def test_missing_places(source):
    guard = Guard((source,), TypeIs(int))
    for base in (None, Thing(), [], {}):
        assert not holds_everywhere(guard, base)
        assert "cannot be read" in explain_failure([guard], FrameValues({"x": base}, {}, {}))[1]


def test_sources_of_other_helpers_are_read_in_python():
    class LengthSource(AttributeSource):
        def read(self, values):
            return len(self.base.read(values))

    assert holds_everywhere(Guard((LengthSource(X, "length"),), Equals(2)), [1, 2])


def test_cells_are_read_where_they_are():
    def make(value):
        def function(x):
            return value, (lambda: x)

        return function

    guards = [Guard((CellSource("value"),), Equals(1)), Guard((CellSource("x"),), Equals(2))]
    program = compile_guards(guards, make(0).__code__)
    if hook.is_native():
        assert program.holds((2,), make(1)) and not program.holds((2,), make(3)) and not program.holds((5,), make(1))


def test_a_variable_that_two_functions_share():
    def make():
        value = 1
        return (lambda x: value), (lambda: value)

    guard = Guard((VariableSource("value"), ItemSource(AttributeSource(X, "__closure__"), 0)), IsSameObject())
    asked, other = make()
    for reader, shares in ((other, True), (make()[1], False)):
        assert asked_again(compile_guards([guard], asked.__code__))((reader,), asked) is shares
        values = FrameValues({"x": reader}, {}, {}, {"value": 1}, {"value": asked.__closure__[0]})
        assert guard.holds(values) is shares


def test_places_are_read_once():
    reads = []

    class Counted:
        @property
        def part(self):
            reads.append(1)
            return Thing(a=1, b=2)

    guards = [Guard((AttributeSource(AttributeSource(X, "part"), name),), TypeIs(int)) for name in "ab"]
    if hook.is_native():
        assert compile_guards(guards, both.__code__).holds((Counted(), None), both) and reads == [1]


def test_parameter_names_follow_the_slots():
    def function(a, /, b, *rest, c, **more):
        local = 1
        return local

    assert parameter_names(function.__code__) == ("a", "b", "c", "rest", "more")


def test_guards_keep_nothing_alive():
    import weakref

    class Big:
        pass

    big = Big()
    reference = weakref.ref(big)
    program = compile_guards([Guard((X,), IdentityIs(big))], both.__code__)
    del big
    assert reference() is None and program is not None


def test_the_words_of_a_failure():
    failures = {
        "`x` is a str, and was an int": (TypeIs(int), "a"),
        "`x` is 3, and was 2": (Equals(2), 3),
        "`x` has 1 item, and had 2": (LengthIs(2), [1]),
        "`x` has other keys (new: 'b'; gone: 'a')": (DictionaryKeysAre(("a",)), {"b": 1}),
        "`x` has other keys (new: 2 objects)": (DictionaryKeysAre(()), {object(): 1, object(): 2}),
        "`x` is the function len: a different object than the first time": (IdentityIs(max), len),
    }
    for words, (predicate, value) in failures.items():
        assert explain_failure([Guard((X,), predicate)], FrameValues({"x": value}, {}, {}))[1] == words


@pytest.mark.parametrize("text", ["<Thing object at 0x7f00>", b"a thing at 0x1"])
def test_text_with_an_address_is_said_as_it_is(text):
    guard = Guard(LocalSource("text"), Equals(text))
    assert str(guard.predicate.check()) == f"is {text!r}"
    assert guard.predicate.failure("text", text[:-1]) == f"text is {text[:-1]!r}, and was {text!r}"


def test_compiling_guards_imports_no_torch():
    program = "import sys, dynascope.guards.check; sys.exit('torch' in sys.modules)"
    import os
    import subprocess

    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    assert subprocess.run([sys.executable, "-c", program], env=environment).returncode == 0
    assert types is not None


def test_a_key_that_comes_and_goes_is_seen_at_every_run():
    """The version of the dictionary is remembered while the key is absent; any change must be looked at again."""

    def function(thing):
        return thing

    guard = Guard((AttributeSource(LocalSource("thing"), "__dict__"),), HasNoKey("forward"))
    program = compile_guards([guard], function.__code__)
    thing = types.SimpleNamespace(training=True)
    for _ in range(3):
        assert program.holds((thing,), function) and program.holds((thing,), function)
        thing.training = not thing.training
        assert program.holds((thing,), function)
        thing.forward = 1
        assert not program.holds((thing,), function)
        del thing.forward
    other = types.SimpleNamespace(forward=2)
    assert not program.holds((other,), function) and program.holds((thing,), function)


def test_guards_and_their_words_run_no_code_of_the_program():
    asked = []

    class Asked:
        def __getattribute__(self, name):
            asked.append(name)
            return object.__getattribute__(self, name)

    class AskedItems(Asked, dict):
        def __iter__(self):
            asked.append("__iter__")
            return iter(())

    for value in (Asked(), AskedItems(a=1)):
        for predicate in (DictionaryKeysAre(("b",)), HasNoKey("a"), TypeIs(int), IdentityIs(3), Equals(3)):
            guard = Guard((X,), predicate)
            values = FrameValues({"x": value}, {}, {})
            guard.holds(values)
            explain_failure([guard], values)
    assert asked == []
