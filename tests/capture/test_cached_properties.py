"""`functools.cached_property`: computed once, and kept where the program looks."""

from __future__ import annotations

import functools

import dynascope
import torch
from torch import nn

COMPUTED = []


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))
        self.count = 3

    @functools.cached_property
    def scale(self):
        COMPUTED.append("scale")
        return self.weight * 2

    @functools.cached_property
    def twice(self):
        return self.count * 2

    def forward(self, x):
        return x * self.scale * self.twice + self.scale


class Slots:
    __slots__ = ()

    @functools.cached_property
    def value(self):
        return 1


SLOTS = Slots()


def test_computed_once_and_kept():
    COMPUTED.clear()
    model = Scaled()
    compiled = dynascope.compile(model, backend="eager", fullgraph=True)
    x = torch.randn(2, 4)
    results = [compiled(x) for _ in range(3)]
    assert COMPUTED == ["scale"]
    kept = model.__dict__["scale"]
    assert torch.equal(kept, model.weight * 2) and model.__dict__["twice"] == 6
    for result in results:
        assert torch.equal(result, x * kept * 6 + kept)


class Counted:
    def __init__(self, count):
        self.count = count

    @functools.cached_property
    def twice(self):
        return self.count * 2


def test_made_inside():
    def program(x):
        made = Counted(4)
        return x * made.twice + made.twice, made.__dict__

    x = torch.randn(2, 4)
    ours, theirs = dynascope.compile(program, backend="eager", fullgraph=True)(x), program(x)
    assert torch.equal(ours[0], theirs[0]) and ours[1] == theirs[1] == {"count": 4, "twice": 8}


def test_one_that_cannot_keep_it():
    def program(x):
        try:
            return x * SLOTS.value
        except TypeError as error:
            return x, str(error)

    x = torch.randn(3)
    assert dynascope.compile(program, backend="eager", fullgraph=True)(x)[1] == program(x)[1]
