"""When a call is compiled again, nothing is read below an object of another class: its own code would run, which nobody called."""

import weakref
from typing import ClassVar

import dynascope
import pytest
import torch
from torch import nn


class Watched:
    """Says what is asked of it."""

    def __init__(self, log):
        object.__setattr__(self, "log", log)

    def __getitem__(self, key):
        self.log.append(("item", key))
        return torch.ones(3)

    def __len__(self):
        self.log.append("length")
        return 3

    def __call__(self):
        self.log.append("call")
        return torch.ones(3)

    def __getattr__(self, name):
        self.log.append(("attribute", name))
        return torch.ones(3)

    def __reduce__(self):
        self.log.append("reduce")
        return (list, ())


class Holder:
    def __init__(self, x, count):
        self.x, self.count = x, count


class Computed(Holder):
    @property
    def scale(self):
        return self.count * 2


def tensor(count):
    return torch.ones(count)


kept = [tensor(3), tensor(4)]
PLACES = {
    "item of a list": (lambda v: v[0] * 2, lambda n: [tensor(n)]),
    "number in a list": (lambda v: torch.ones(3) * v[0], lambda n: [n]),
    "item of a dict": (lambda v: v["x"] * 2, lambda n: {"x": tensor(n)}),
    "length": (lambda v: torch.ones(3) * len(v), lambda n: [0] * n),
    "attribute": (lambda v: v.x * v.count, lambda n: Holder(tensor(n), n)),
    "property": (lambda v: v.x * v.scale, lambda n: Computed(tensor(n), n)),
    "nested": (lambda v: v[0][1].x * 2, lambda n: [(0, Holder(tensor(n), n))]),
    "tensor": (lambda v: v * 2, tensor),
    "iterator": (lambda v: sum(v) * torch.ones(2), lambda n: iter([n, 2, 3])),
    "weak reference": (lambda v: v() * 2, lambda n: weakref.ref(kept[n - 3])),
}


@pytest.mark.may_break
@pytest.mark.parametrize("where", ["itself", "inside"])
@pytest.mark.parametrize("name", PLACES)
def test_the_programs_own_code_is_not_run(name, where):
    read, make = PLACES[name]
    log = []

    @dynascope.compile
    def program(box):
        value = box if where == "itself" else box[0]
        return 0 if type(value) is Watched else read(value)

    def call(value):
        return program(value if where == "itself" else [value])

    for count in (3, 4):
        call(make(count))
    log.clear()
    assert call(Watched(log)) == 0
    assert log == []


def test_the_class_of_an_object_is_not_asked_of_the_object():
    """Why a call is compiled again is read off types: `isinstance` would run the program's `__getattribute__`."""
    asked = []

    class Told:
        def __init__(self, value):
            self.value = value

        def __getattribute__(self, name):
            asked.append(name)
            return object.__getattribute__(self, name)

    def program(x, told):
        return x * told.value

    compiled = dynascope.compile(program)
    for value in (1, 2, 3):
        compiled(torch.ones(2), Told(value))
    assert set(asked) == {"value"}


class Counted:
    """Writes down that it was compared."""

    said: ClassVar[list[str]] = []

    def __eq__(self, other):
        self.said.append("==")
        return self is other

    def __hash__(self):
        return 1


class Shaped(torch.Tensor):
    @property
    def shape(self):
        raise ValueError("not known yet")


@pytest.mark.may_break
def test_what_compiled_code_says_of_other_keys_and_classes_runs_nothing_of_the_programs():
    """Why an earlier entry does not serve is said of whatever lies at the place now."""

    def program(x, given):
        return x + 1, list(given.values()) if type(given) is dict else type(given).__name__

    call = dynascope.compile(program, backend="eager")
    Counted.said.clear()
    for given in (torch.ones(2), {"a": 1}, {Counted(): 1}, torch.ones(2).as_subclass(Shaped), nn.UninitializedParameter()):
        x = torch.ones(2)
        assert call(x, given)[1] == program(x, given)[1]
    assert not Counted.said
