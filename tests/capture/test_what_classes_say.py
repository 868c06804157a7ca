"""What a class or its own class says of an attribute comes first: `__class__` as a property, descriptors of metaclasses, members in C."""

import abc
import collections
import functools

import dynascope
import pytest
import torch
from dynascope.strictness import expected
from harness import compiled
from test_outside_protocols import assert_same

X = torch.ones(2)


class Disguised:
    @property
    def __class__(self):
        return int


class Named:
    __class__ = list
    __name__ = "its own"


class Answering:
    def __getattribute__(self, name):
        return str if name == "__class__" else object.__getattribute__(self, name)


class Counting(type):
    asked = 0
    names: list[str] = []

    @property
    def count(cls):
        Counting.asked += 1
        return Counting.asked

    @property
    def label(cls):
        return "of the class"

    def __getattr__(cls, name):
        Counting.names.append(name)
        return len(Counting.names)

    def greet(cls, whom):
        return f"{cls.__name__} {whom}"


class Counted(metaclass=Counting):
    label = "of the object"


class Guarded(type):
    def __getattribute__(cls, name):
        return 42 if name == "magic" else super().__getattribute__(name)


class Watched(metaclass=Guarded):
    magic = 1

    def both(self):
        return self.magic, type(self).magic


def test_the_class_that_an_object_names():
    shown = Disguised()

    def program(x):
        made = Disguised()
        return (
            x + 1,
            [made.__class__, shown.__class__, isinstance(made, int), isinstance(shown, int), type(made)],
            [Named().__class__, Named().__name__, Named.__name__, isinstance(Named(), list)],
            [Answering().__class__, isinstance(Answering(), str), type(Answering())],
        )

    assert compiled(program)(X)[1:] == program(X)[1:]


def test_a_metaclass_is_asked_each_time():
    def program(x):
        found = [Counted.count, Counted.count, Counted.label, Counted().label, Counted.greet("you"), Counted.unknown]
        return x * found[0], found, Watched().both(), Watched.magic

    results = []
    for way in (program, compiled(program)):
        Counting.asked, Counting.names = 0, []
        results.append([way(X), way(X), Counting.asked, list(Counting.names)])
    assert_same(*results)


READ_ONLY = {
    "message": lambda: setattr(ExceptionGroup("several", [ValueError()]), "message", "one"),
    "exceptions": lambda: setattr(ExceptionGroup("several", [ValueError()]), "exceptions", ()),
    "maxlen": lambda: setattr(collections.deque((), 2), "maxlen", 3),
    "func": lambda: setattr(functools.partial(len), "func", max),
    "start": lambda: setattr(range(3), "start", 1),
}


@pytest.mark.may_break
@pytest.mark.parametrize("name", READ_ONLY)
def test_what_c_does_not_let_change(name):
    change = READ_ONLY[name]

    def program(x):
        try:
            change()
        except AttributeError as error:
            return x + 1, str(error)
        return x, "changed"

    assert compiled(program)(X)[1] == program(X)[1]


class Thing:
    pass


class Special(Thing):
    pass


@pytest.mark.may_break
def test_what_an_exception_from_outside_holds():
    def program(x, error):
        return x + 1, error.value

    fast = compiled(program)
    assert [fast(X, StopIteration(number))[1] for number in (7, 8)] == [7, 8]


def test_a_function_registered_inside_is_found():
    def fresh():
        @functools.singledispatch
        def kind(thing):
            return "anything"

        return kind

    def program(x, kind):
        found = [kind(Special())]
        kind.register(Thing, lambda thing: "thing")
        found.append(kind(Special()))
        kind.register(Special, lambda thing: "special")
        found += [kind(Special()), kind(Thing()), kind(3)]
        return x + 1, found

    expected = ["anything", "thing", "special", "thing", "anything"]
    fast = compiled(program)
    for _ in range(2):
        kind = fresh()
        assert fast(X, kind)[1] == expected
        assert kind(Special()) == "special"


def test_names_of_a_class_may_change():
    class Kind:
        """first"""

    def program(x):
        return x, Kind.__name__, Kind.__qualname__, Kind.__doc__, type(Kind()).__name__

    function = compiled(program)
    for name in ("__name__", "__qualname__", "__doc__"):
        assert function(X) == program(X)
        setattr(Kind, name, "another")
    assert function(X) == program(X)


class Observed:
    """Whatever looks at an instance, and is not the program, is noted."""

    asked: list[str] = []

    def __getattribute__(self, name):
        Observed.asked.append(name)
        return object.__getattribute__(self, name)

    def __repr__(self):
        Observed.asked.append("repr")
        return "watched"

    def __len__(self):
        return 2


class LoudNumber(int):
    __repr__ = Observed.__repr__


def given_back_by_another_name(x, watched):
    print("begun")
    kept, watched = watched, None
    return x + len(kept), watched


def used_as_a_key(x, watched):
    return x + 1, {watched: 1}[watched]


def looked_up(x, watched):
    return x + len(GLOBALLY)


def put_behind_a_break(x, watched):
    held = watched
    total = x.sum().item()
    print(total)
    held = None
    return x * total, held


GLOBALLY = Observed()


@pytest.mark.parametrize("program", [given_back_by_another_name, used_as_a_key, looked_up, put_behind_a_break])
def test_capture_asks_no_object_for_its_class(program):
    for _ in range(2):
        del Observed.asked[:]
        theirs = program(X, Observed()), Observed.asked[:]
        del Observed.asked[:]
        mine = compiled(program)(X, Observed()), Observed.asked[:]
        assert mine[1] == theirs[1]


def test_a_guard_that_fails_shows_nothing_by_the_programs_repr():
    function = compiled(lambda x, number: x + number)
    del Observed.asked[:]
    for number in (1, LoudNumber(2), LoudNumber(3), 4):
        assert torch.equal(function(X, number), X + int(number))
    assert Observed.asked == []


class Standing:
    """Stands for another object, as the proxies of web frameworks do: `__dict__` is the other's."""

    def __init__(self, other):
        self.other = other

    @property
    def __dict__(self):
        Observed.asked.append("dictionary")
        return {"shown": 5}


class Forwarding(Standing):
    def __getattr__(self, name):
        return getattr(self.other, name)


class Shown:
    shown = 7


def read_and_written(x, standing):
    found = [getattr(standing, "shown", "nothing"), hasattr(standing, "absent"), standing.other is None]
    standing.kept = x
    return found, standing.kept + 1, vars(standing)


def made_inside(x, standing):
    made = type(standing)(x)
    return made.other + 1, vars(made)


@pytest.mark.parametrize("program", [read_and_written, made_inside])
@pytest.mark.parametrize("standing", [lambda: Standing(1), lambda: Forwarding(Shown())], ids=["plain", "forwarding"])
def test_a_class_that_hides_its_dictionary_is_left_to_python(program, standing):
    function = compiled(program)
    with expected("unsupported-attribute", required=False):
        for _ in range(2):
            del Observed.asked[:]
            theirs, asked = program(X, standing()), Observed.asked[:]
            del Observed.asked[:]
            assert_same(function(X, standing()), theirs)
            assert Observed.asked == asked


class Hearing(torch.nn.Module):
    """Hears of all that a call of torch's reads."""

    heard: list[str] = []

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 2)

    def __getattribute__(self, name):
        if name in ("forward", "layer", "_forward_hooks"):
            Hearing.heard.append(name)
        return super().__getattribute__(name)

    def forward(self, x):
        return self.layer(x)


class Redirecting(torch.nn.Module):
    def __getattribute__(self, name):
        return {1: lambda module, given, result: result * 3} if name == "_forward_hooks" else super().__getattribute__(name)

    def forward(self, x):
        return x + 1


class CalledOtherwise(torch.nn.Module):
    def _call_impl(self, x):
        return x * 9

    def forward(self, x):
        return x


@pytest.mark.parametrize("kind", [Hearing, Redirecting, CalledOtherwise])
def test_a_module_that_answers_what_its_call_reads(kind):
    module = kind()
    for function in (module, lambda x: module(x) + 1):
        call = dynascope.compile(function, backend="eager")
        for _ in range(2):
            del Hearing.heard[:]
            theirs, heard = function(X), Hearing.heard[:]
            del Hearing.heard[:]
            torch.testing.assert_close(call(X), theirs)
            assert Hearing.heard == heard


class Making(type):
    """Calls by its own `__call__`, in both of the ways in which programs write it."""

    def __call__(cls, *arguments, **keywords):
        made = super().__call__(*arguments, **keywords)
        if isinstance(made, cls):
            made.told = type.__call__(list, arguments)
        return made


class Pair(metaclass=Making):
    def __init__(self, first, second=1):
        self.first, self.second = first, second


class Wide(Pair):
    def __new__(cls, first, wide=True):
        return super().__new__(cls) if wide else "narrow"

    def __init__(self, first, wide=True):
        super().__init__(first, 7)


class Unfinished(metaclass=type("MakingAbstract", (Making, abc.ABCMeta), {})):
    @abc.abstractmethod
    def step(self):
        raise NotImplementedError


def test_a_metaclass_makes_objects_by_its_base():
    def program(x):
        pair, wide, narrow = Pair(x, second=2), Wide(x * 2), Wide(x, wide=False)
        return pair.first * pair.second, wide.first * wide.second, pair.told[0], narrow, type(wide)

    assert_same(dynascope.compile(program, backend="eager", fullgraph=True)(X), program(X))


@pytest.mark.may_break
@pytest.mark.parametrize("make", [lambda: Pair(), lambda: Pair(1, 2, 3), lambda: Pair(other=1), lambda: Unfinished()])
def test_what_a_metaclass_cannot_make(make):
    def program(x):
        return x + 1, make()

    words = []
    for way in (program, dynascope.compile(program, backend="eager")):
        with pytest.raises(TypeError) as raised:
            way(X)
        words.append(str(raised.value))
    assert words[0] == words[1]


class Sized:
    size = 1

    @property
    def scale(self):
        return self.size

    @scale.setter
    def scale(self, value):
        self.size = value


class Doubled(Sized):
    @property
    def scale(self):
        return super().scale * 2

    @scale.setter
    def scale(self, value):
        super(Doubled, type(self)).scale.fset(self, value + 1)


def test_a_property_by_the_class_before():
    def program(x, sized):
        made = Doubled()
        made.scale, sized.scale = 3, 4
        return x * made.scale, x * sized.scale, super(Doubled, Doubled).scale is Sized.scale

    mine, theirs = Doubled(), Doubled()
    assert_same(dynascope.compile(program, backend="eager", fullgraph=True)(X, mine), program(X, theirs))
    assert vars(mine) == vars(theirs)
