"""Sets from outside that hold classes, members of enums, functions or types of elements: what is in them is a constant of the guard."""

from __future__ import annotations

import enum
import operator

import pytest
import torch
from dynascope import compile, expected
from harness import graphs_of
from torch import nn


class Kind(enum.Enum):
    FIRST = 1
    SECOND = 2


class Alike(type):
    """All its classes are equal."""

    def __eq__(cls, other):
        return True

    def __hash__(cls):
        return 5


class One(metaclass=Alike):
    pass


class Other(metaclass=Alike):
    pass


def kept():
    pass


X = torch.ones(2)
HELD = {nn.Linear, float, Kind.FIRST, (int, 2), kept, len, operator.add, torch.float32, torch.relu, None, 1.0}
ASKED = (nn.Linear, nn.ReLU, float, int, Kind.FIRST, Kind.SECOND, (int, 2), (int, 3), kept, len, max, operator.add, torch.float32,
         torch.float64, torch.relu, torch.sin, None, 1, True, 2)  # fmt: skip


@pytest.mark.parametrize("asked", ASKED, ids=range(len(ASKED)))
@pytest.mark.parametrize("kind", [set, frozenset])
def test_whether_something_is_in_it(asked, kind):
    held = kind(HELD)

    def function(x, asked=asked):
        return x + (asked in held), len(held), bool(held)

    mine, made = graphs_of(function, fullgraph=True)
    x = torch.zeros(2)
    assert torch.equal(mine(x)[0], function(x)[0]) and mine(x)[1:] == function(x)[1:] and len(made) == 1


def test_the_usual_way_to_choose_layers():
    skipped = {nn.ReLU, nn.Dropout}
    layers = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 3), nn.Tanh())

    def function(x):
        for layer in layers:
            if type(layer) not in skipped:
                x = layer(x)
        return x

    mine, made = graphs_of(function, fullgraph=True)
    x = torch.randn(2, 3)
    assert torch.equal(mine(x), function(x))
    skipped.add(nn.Tanh)
    assert torch.equal(mine(x), function(x))
    skipped.discard(nn.Tanh)
    assert torch.equal(mine(x), function(x)) and len(made) == 2


def test_what_is_put_into_it_is_there_afterwards():
    seen: set[type] = {int}

    def function(x):
        seen.add(type(x))
        return x + len(seen)

    mine, _ = graphs_of(function, fullgraph=True)
    x = torch.ones(2)
    assert torch.equal(mine(x), x + 2) and seen == {int, torch.Tensor}
    assert torch.equal(mine(x), x + 2) and seen == {int, torch.Tensor}


def test_classes_with_an_equality_of_their_own():
    held = {One}
    mine = compile(lambda x: x + (Other in held), backend="eager")
    assert torch.equal(mine(torch.zeros(2)), torch.ones(2))


def test_a_number_is_not_taken_for_another_of_its_worth():
    """1, True and 1.0 are one item of a set, and which of them lies in it can be seen."""
    held: set = {1}

    def function(x):
        return x + 1, max(held).__class__, 1 in held

    mine, made = graphs_of(function, fullgraph=True)
    for item in (1, True, 1.0):
        held.clear()
        held.add(item)
        assert mine(torch.zeros(1))[1:] == (type(item), True)
    assert len(made) == 3


class Odd(type):
    """No class of it may be compared or looked up."""

    def __eq__(cls, other):
        raise ZeroDivisionError

    def __hash__(cls):
        raise ZeroDivisionError


class Unhashed(type):
    def __eq__(cls, other):
        return True


@pytest.mark.parametrize("kind", [Odd, Unhashed])
def test_nobody_compares_the_classes_of_a_metaclass(kind):
    class Scale(metaclass=kind):
        by = 3

        def apply(self, x):
            return x * self.by

    class Layer(nn.Module, metaclass=kind):
        by = 1

        def forward(self, x):
            return x + self.by

    layer = Layer()
    functions = (lambda x, scale: scale.apply(x), lambda x, scale: Scale().apply(x), lambda x, scale: x * Scale.by,
                 lambda x, scale: x * 3 if isinstance(scale, Scale) else x, lambda x, scale: layer(x * 3) - 1)  # fmt: skip
    for function in functions:
        with expected("foreign-value"):
            assert torch.equal(compile(function, backend="eager")(X, Scale()), X * 3)
    with expected("foreign-value"):
        assert torch.equal(compile(layer, backend="eager")(X), X + 1)
