"""What `dynascope run` and notebooks note about modules is no part of the program: modules made inside are made as without it."""

from __future__ import annotations

import dynascope
import pytest
import torch
from dynascope.capture.layers import note_registrations
from torch import nn

LAYERS = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))
ROW = nn.Sequential(*LAYERS)


def some_of_a_list(x):
    for layer in LAYERS[:2]:
        x = layer(x)
    return x


def some_of_a_row(x):
    return ROW[1:](x)


class Scaled(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner
        self.register_module("again", inner)

    def forward(self, x):
        return self.again(self.inner(x)) * 2


def made_inside(x):
    return Scaled(LAYERS[0])(x)


@pytest.mark.parametrize("function", [some_of_a_list, some_of_a_row, made_inside], ids=lambda each: each.__name__)
def test_modules_are_made_inside(function):
    note_registrations()
    x = torch.randn(2, 4)
    assert torch.equal(dynascope.compile(function, backend="eager", fullgraph=True)(x), function(x))


def test_hooks_of_the_programs_own_run():
    seen = []
    handle = torch.nn.modules.module.register_module_module_registration_hook(lambda parent, name, child: seen.append(name))
    try:
        x = torch.randn(2, 4)
        assert torch.equal(dynascope.compile(made_inside, backend="eager")(x), made_inside(x))
    finally:
        handle.remove()
    assert seen == ["inner", "again"] * 2
