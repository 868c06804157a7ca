"""Objects whose `__dict__` is another's (`self.__dict__ = self._shared`), that are their own, and whose items are attributes."""

import copy
import types

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
    kind = "settings"

    def __init__(self, **items):
        super().__init__(**items)
        self.__dict__ = self

    @property
    def twice(self):
        return 2 * self.count


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


def written_by_name(x, settings):
    settings.count += 1
    settings.shown = x * settings["count"]
    del settings.gone
    answers = [settings.twice, settings.kind, list(settings), vars(settings) is settings, "gone" in settings]
    try:
        answers.append(settings.gone)
    except AttributeError as error:
        answers.append(str(error))
    return settings["shown"], answers


def written_by_key(x, settings):
    settings["count"] += 1
    settings.pop("gone")
    settings.update(shown=x * settings.count)
    return settings.shown, [hasattr(settings, "gone"), settings.twice, sorted(vars(settings))]


def made_inside(x, settings):
    made = Own(loss=x.sum(), count=2)
    made.logits, made["more"] = x, 1
    made.count += made.more
    return x * made.twice, [made, list(made), vars(made) is made, made.loss, settings["rate"] * settings.rate]


@pytest.mark.parametrize("function", [written_by_name, written_by_key, made_inside])
def test_an_object_that_is_its_own_dictionary(function):
    call = dynascope.compile(function, fullgraph=True)
    plain, given = Own(rate=0.5, count=1, gone=3), Own(rate=0.5, count=1, gone=3)
    for _ in range(3):
        plain.gone = given.gone = 3
        expected, found = function(X, plain), call(X, given)
        assert torch.equal(found[0], expected[0])
        assert found[1] == expected[1]
        assert list(given) == list(plain)
        assert vars(given) is given


def test_an_object_that_is_its_own_dictionary_and_is_read():
    settings = Own(rate=0.5, count=2)
    call = dynascope.compile(lambda x: x * settings.rate * settings["count"], fullgraph=True)
    assert torch.equal(call(X), X)
    settings.rate = 2.0
    assert torch.equal(call(X), X * 4)


class Keyed(dict):
    __getattr__ = dict.__getitem__
    __setattr__ = dict.__setitem__
    __delattr__ = dict.__delitem__


class Lenient(dict):
    __getattr__ = dict.get


def attributes_as_items(x, keyed, lenient):
    keyed.count += 1
    keyed.shown = x * keyed["count"]
    del keyed.gone
    answers = [lenient.nothing, lenient.count, hasattr(lenient, "nothing"), list(keyed)]
    for ask in (lambda: keyed.gone, lambda: hasattr(keyed, "gone"), lambda: keyed.__delattr__("gone")):
        try:
            answers.append(ask())
        except KeyError as error:
            answers.append(str(error))
    made = Keyed(one=1)
    made.two = made.one + 1
    return keyed.shown * made["two"], answers


def test_attributes_that_the_class_in_c_answers_as_items():
    call = dynascope.compile(attributes_as_items, fullgraph=True)
    for count in range(3):
        given = [Keyed(count=count, gone=1), Lenient(count=count)]
        plain = [Keyed(given[0]), Lenient(given[1])]
        expected, found = attributes_as_items(X, *plain), call(X, *given)
        assert torch.equal(found[0], expected[0])
        assert found[1] == expected[1]
        assert list(given[0]) == list(plain[0])


def test_the_shared_dictionary_and_an_object_from_outside():
    State = state_class()
    outside = State()

    def function(x):
        State().steps += 1
        return x * outside.steps

    call = dynascope.compile(function, fullgraph=True)
    for turn in range(1, 4):
        assert torch.equal(call(X), X * turn)


def test_the_shared_dictionary_of_an_object_that_was_met_before():
    State = state_class()
    outside, other, shared = State(), State(), State._shared

    def function(x):
        outside.steps += 1
        made = State()
        made.__dict__.update(scale=outside.scale)
        made.steps += 1
        shared["steps"] += 1
        other.held = x * outside.steps
        return made.held, made.twice, vars(other) is shared, list(shared)

    call = dynascope.compile(function, fullgraph=True)
    for turn in range(1, 4):
        result, twice, is_one, names = call(X)
        assert torch.equal(result, X * 3 * turn)
        assert (twice, is_one, names) == (6 * turn, True, list(shared))
        assert names == ["steps", "log", "scale", "held"]
        assert other.steps == 3 * turn


def test_what_is_there_already_is_put_beside_a_property():
    class Settings:
        @property
        def debug(self):
            return 5

    settings = Settings()
    names, defaults = vars(settings), {"debug": False, "scale": 2}
    names.update(debug=False, scale=1)

    def function(x):
        before = settings.scale
        names.update(defaults)
        return x * settings.scale * settings.debug, before, names["debug"]

    result, *rest = dynascope.compile(function, fullgraph=True)(X)
    assert torch.equal(result, X * 10)
    assert rest == [1, False]
    assert names == {"debug": False, "scale": 2}


def test_a_large_dictionary_that_holds_attributes():
    class Slotted:
        __slots__ = ("__dict__", "kept")

    thing = Slotted()
    names = vars(thing)
    names.update({f"a{index}": index for index in range(300)})

    def function(x):
        before, had = names["a3"], "new" in names
        thing.a3 += 1
        thing.new = 1
        return x * names["a3"], before, had, "new" in names

    call = dynascope.compile(function, fullgraph=True)
    for turn in range(3):
        result, *rest = call(X)
        assert torch.equal(result, X * (4 + turn))
        assert rest == [3 + turn, turn > 0, True]


def names_of_a_module(x, owner, names):
    owner.count += 1
    return x * names["count"]


def names_of_a_module_by_key(x, owner, names):
    names["count"] += 1
    return x * owner.count


@pytest.mark.expects("aliased-mutation")
@pytest.mark.parametrize("function", [names_of_a_module, names_of_a_module_by_key])
@pytest.mark.parametrize("more", [0, 300])
def test_a_module_and_its_dictionary(function, more):
    module = types.ModuleType("settings")
    vars(module).update({f"a{index}": index for index in range(more)}, count=0)
    call = dynascope.compile(lambda x: function(x, module, names))
    names = vars(module)
    for turn in range(1, 4):
        assert torch.equal(call(X), X * turn)


@pytest.mark.expects("aliased-mutation")
def test_a_function_and_its_dictionary():
    def helper():
        pass

    helper.count = 0
    names = vars(helper)
    call = dynascope.compile(lambda x: names_of_a_module_by_key(x, helper, names))
    for turn in range(1, 4):
        assert torch.equal(call(X), X * turn)


class Held:
    pass


def held(**names):
    made = Held()
    vars(made).update(names)
    return made


def write_names(names, holds, x):
    names["a"] = 9
    return x * holds["object"].a


def write_object(names, holds, x):
    holds["object"].a = 9
    return x * names["a"]


def write_names_of_globals(names, holds, x):
    names["SCALE"] += 1
    return x * SCALE


SCALE = 3


@pytest.mark.parametrize("function", [write_names, write_object])
def test_a_dictionary_that_is_the_objects_own_at_a_later_call(function):
    """Nothing said so at the first: the object's attribute was read as if nobody had written to it (silent)."""
    call = dynascope.compile(function, fullgraph=True)
    for call_of in (function, call):
        assert torch.equal(call_of({"a": 1}, {"object": held(a=1)}, X), X * (1 if function is write_names else 1))
        one = held(a=1)
        names = vars(one)
        assert torch.equal(call_of(names, {"object": one}, X), X * 9)
        assert one.a == 9


@pytest.mark.expects("aliased-mutation")
def test_a_dictionary_that_is_the_modules_names_at_a_later_call():
    call = dynascope.compile(write_names_of_globals)
    names = dict(globals())
    assert torch.equal(call(names, {}, X), X * SCALE)
    before = SCALE
    try:
        assert torch.equal(call(globals(), {}, X), X * (before + 1))
        assert before + 1 == SCALE
    finally:
        globals()["SCALE"] = before


def test_a_dictionary_met_before_the_object_that_has_it():
    def function(names, one, x):
        names["b"] = 3
        one.c = names["b"] + 1
        del one.a
        answers = [hasattr(one, "a"), sorted(vars(one)), getattr(one, "nothing", 8), "a" in names, vars(one) is names]
        return x * one.b + names["c"], answers

    call = dynascope.compile(function, fullgraph=True)
    for _ in range(2):
        plain, given = held(a=1), held(a=1)
        expected, found = function(vars(plain), plain, X), call(vars(given), given, X)
        assert torch.equal(found[0], expected[0])
        assert found[1] == expected[1]
        assert list(vars(given).items()) == list(vars(plain).items())
