"""Calls with too many or too few arguments, and what is not there: Python's error in Python's words, and what follows a caught one."""

import collections

import dynascope
import pytest
import torch


def one(a):
    return a


def two(a, b=1):
    return a


def three(a, b, c):
    return a


def first_by_place(a, b=1, /, c=2, *, d):
    return a


def rest_by_name(a, /, **others):
    return others


def by_name(*, a, b):
    return a


def remove(container, key):
    del container[key]


WRONG = {
    "one too many": lambda: one(1, 2),
    "many too many": lambda: one(1, 2, 3),
    "too many with a default": lambda: two(1, 2, 3),
    "too many of three": lambda: three(1, 2, 3, 4),
    "none of one": lambda: one(),
    "one of three": lambda: three(1),
    "two of three": lambda: three(1, 2),
    "a name twice": lambda: one(1, a=2),
    "an unknown name": lambda: two(1, c=2),
    "by name what has none": lambda: first_by_place(a=1, d=2),
    "by name two that have none": lambda: first_by_place(1, a=2, b=3, d=4),
    "one that is to be named": lambda: first_by_place(1),
    "too many beside a name": lambda: first_by_place(1, 2, 3, 4, d=5),
    "an unknown name among too many": lambda: first_by_place(1, 2, 3, 4, e=5),
    "two unknown names": lambda: by_name(a=1, c=2, d=3),
    "names by place": lambda: by_name(1, a=2, b=3),
    "no names": lambda: by_name(),
    "the place is taken by the rest": lambda: rest_by_name(a=1),
    "range": lambda: range(1, 2, 3, 4),
    "range of nothing": lambda: range(),
    "slice": lambda: slice(1, 2, 3, 4),
    "zip": lambda: list(zip([1], [1, 2], strict=True)),
    "next": lambda: next(iter([])),
    "no such key": lambda: {"a": 1}["b"],
    "no such key to delete": lambda: remove({"a": 1}, "b"),
    "no such place to delete": lambda: remove([1], 1),
    "no such key to pop": lambda: {"a": 1}.pop("b"),
    "no such value to remove": lambda: [1].remove(2),
    "no such member to remove": lambda: {1}.remove(2),
    "nothing to pop": lambda: [].pop(),
    "no attribute": lambda: (1).real_part,
    "no sum": lambda: 1 + "a",
    "a tuple by a fraction": lambda: (1, 2) * 2.5,
    "a tuple by a fraction, by name": lambda: (1, 2).__mul__(2.5),
    "a range by a tuple, by name": lambda: (1, 2).__rmul__(range(3)),
    "no such text": lambda: "abc".index("z"),
    "no class": lambda: issubclass(1, int),
    "a count of sizes": lambda: torch.Size([2, 3]).numel(1),
    "not as many values": lambda: (lambda a, b: a)(*[1]),
}


@pytest.mark.may_break
@pytest.mark.parametrize("name", WRONG)
def test_the_error_is_pythons(name):
    wrong = WRONG[name]

    def program(x):
        y = x + 1
        try:
            wrong()
        except Exception as error:
            return y * 2, type(error), str(error)
        return y * 3, None, None

    x = torch.ones(2)
    ours, theirs = dynascope.compile(program)(x), program(x)
    assert torch.equal(ours[0], theirs[0]) and ours[1:] == theirs[1:]
    assert theirs[1] is not None


FILLED = {
    "fromkeys": lambda x: dict.fromkeys("ab"),
    "fromkeys with a value": lambda x: dict.fromkeys("ab", x),
    "fromkeys of pairs": lambda x: dict.fromkeys([(1, 2), (1, 2)], 0),
    "dict of names": lambda x: dict([("a", 1)], b=x),
    "setdefault": lambda x: (d := {}, d.setdefault("a"), d.setdefault("a", 1))[0],
}


@pytest.mark.parametrize("name", FILLED)
def test_dictionaries_that_are_filled(name):
    x = torch.ones(2)
    ours, theirs = dynascope.compile(lambda x: (FILLED[name](x), x + 1))(x)[0], FILLED[name](x)
    assert list(ours) == list(theirs)
    for key, value in theirs.items():
        assert torch.equal(ours[key], value) if isinstance(value, torch.Tensor) else ours[key] == value


KEYS = {"none": None, "a pair": (1, 2), "nothing": (), "text": "b"}


@pytest.mark.parametrize("kind", [dict, collections.OrderedDict])
@pytest.mark.parametrize("key", KEYS)
def test_a_key_error_holds_what_python_puts_into_it(kind, key):
    """`OrderedDict.pop(None)` raises a KeyError without arguments, and a tuple's items are its arguments."""

    def remove(filled, key):
        del filled[key]

    def program(x, filled, key):
        args = []
        for wrong in (lambda: filled.pop(key), lambda: filled.move_to_end(key), lambda: remove(filled, key), lambda: filled[key]):
            try:
                wrong()
            except (KeyError, AttributeError) as error:
                args.append(error.args)
        return x + 1, args

    x = torch.ones(2)
    assert dynascope.compile(program)(x, kind(a=1), KEYS[key])[1] == program(x, kind(a=1), KEYS[key])[1]


@pytest.mark.may_break
def test_defaults_that_are_taken_away_are_missed():
    """The guards ask for them as what they were, and do not fail with an error of their own."""

    def scaled(x, by=2, *, plus=1):
        return x * by + plus

    def program(x):
        return scaled(x)

    call, x = dynascope.compile(program, backend="eager"), torch.ones(2)
    for defaults, named in (((2,), {"plus": 1}), (None, {"plus": 1}), ((5,), {"plus": 1}), ((5,), None), ((5,), {"plus": 2}), ((5,), {})):
        scaled.__defaults__, scaled.__kwdefaults__ = defaults, named
        if defaults and named:
            assert torch.equal(call(x), program(x))
            continue
        with pytest.raises(TypeError) as ours:
            call(x)
        with pytest.raises(TypeError) as theirs:
            program(x)
        assert str(ours.value) == str(theirs.value)
