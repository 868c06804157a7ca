"""Objects whose `__dict__` is another's: `self.__dict__ = self._shared`, and objects that are their own `__dict__`."""

import copy

import dynascope
import pytest
import torch

X = torch.ones(2)


def state_class():
    class State:
        _shared = {}
        scale = 2

        def __init__(self):
            self.__dict__ = self._shared
            if not self.__dict__:
                self.steps, self.log = 0, []

        @property
        def twice(self):
            return 2 * self.steps

        def __getattr__(self, name):
            if name == "lazy":
                return 7
            raise AttributeError(f"no {name}")

    return State


class Slotted:
    __slots__ = ("__dict__", "kept")

    def __init__(self, given):
        self.__dict__ = given
        self.kept, self.written = 1, 2


class Own(dict):
    def __init__(self, **items):
        super().__init__(**items)
        self.__dict__ = self


def counting(State, x):
    state = State()
    state.steps += 1
    state.log.append(state.steps)
    return x * state.steps * state.scale + state.twice + state.lazy, State().log


def names(State, x):
    state = State()
    state.scale, state.held = 5, x + 1
    before = State().scale
    del state.scale
    answers = [
        before,
        hasattr(state, "held"),
        hasattr(state, "nothing"),
        sorted(vars(state)),
        getattr(State(), "nothing", 3),
    ]
    try:
        answers.append(State().gone)
    except AttributeError as error:
        answers.append(str(error))
    return State().held * state.scale, answers


@pytest.mark.parametrize("function", [counting, names])
def test_objects_made_inside(function):
    plain, given = state_class(), state_class()
    call = dynascope.compile(function, fullgraph=True)
    for _ in range(3):
        expected, found = function(plain, X), call(given, X)
        assert torch.equal(found[0], expected[0])
        assert found[1] == expected[1]
        assert set(given._shared) == set(plain._shared)
        assert (given().steps, given().log) == (plain().steps, plain().log)


def test_what_leaves_has_the_dictionary_it_was_given():
    def function(x, given):
        inside = {"w": 1}
        one, other = Slotted(given), Slotted(inside)
        inside["w"] += 1
        one.added = x
        return one, copy.deepcopy(vars(other)), other, inside, x * other.w * given["written"]

    given = {}
    one, copied, other, inside, result = dynascope.compile(function, fullgraph=True)(X, given)
    assert vars(one) is given
    assert vars(other) is inside
    assert (one.kept, list(given), list(inside), copied) == (1, ["written", "added"], ["w", "written"], inside)
    assert torch.equal(result, X * 4)


@pytest.mark.expects("print-call")
def test_across_a_break(capsys):
    State = state_class()

    def function(x):
        state = State()
        state.steps += 1
        print(state.steps)
        state.steps += 1
        return x * state.steps, state

    call = dynascope.compile(function)
    for turn in range(3):
        result, state = call(X)
        assert torch.equal(result, X * (2 * turn + 2))
        assert vars(state) is State._shared
    assert capsys.readouterr().out == "1\n3\n5\n"


def test_objects_from_outside_that_share_one():
    State = state_class()
    one, other = State(), State()

    def function(x):
        one.steps += 1
        other.half = other.steps / 2
        return x * other.steps, one.half

    call = dynascope.compile(function, fullgraph=True)
    for turn in range(1, 5):
        result, half = call(X)
        assert torch.equal(result, X * turn)
        assert (half, one.steps, other.half) == (turn / 2, turn, turn / 2)


def test_one_that_is_shared_later():
    class Free:
        pass

    def function(one, other, x):
        one.steps += 1
        return x * other.steps

    call = dynascope.compile(function, fullgraph=True)
    one, other, shared = Free(), Free(), Free()
    one.steps = other.steps = 1
    shared.__dict__ = one.__dict__
    assert torch.equal(call(one, shared, X), X * 2)
    assert torch.equal(call(one, other, X), X)
    assert torch.equal(call(one, shared, X), X * 4)


@pytest.mark.expects("aliased-mutation")
def test_an_object_that_is_its_own_dictionary_and_is_written():
    settings = Own(rate=0.5, count=1)

    def by_name(x):
        settings.count += 1
        return x * settings["count"]

    def by_key(x):
        settings["count"] += 1
        return x * settings.count

    for function, expected in ((by_name, 2), (by_key, 3), (by_name, 4)):
        assert torch.equal(dynascope.compile(function)(X), X * expected)


def test_an_object_that_is_its_own_dictionary_and_is_read():
    settings = Own(rate=0.5, count=2)
    call = dynascope.compile(lambda x: x * settings.rate * settings["count"], fullgraph=True)
    assert torch.equal(call(X), X)
    settings.rate = 2.0
    assert torch.equal(call(X), X * 4)


@pytest.mark.expects("aliased-mutation")
def test_the_shared_dictionary_and_an_object_from_outside():
    State = state_class()
    outside = State()

    def function(x):
        State().steps += 1
        return x * outside.steps

    call = dynascope.compile(function)
    for turn in range(1, 4):
        assert torch.equal(call(X), X * turn)
