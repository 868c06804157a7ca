"""What a function changes that eager runs at another time (a custom backward pass) or once more (under checkpoint): what was there
before, be it outside, made inside or changed already, and what it makes for itself."""

import dynascope
import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

OUTSIDE = []


class Counted(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return x.sin()


MODULE = Counted()


def function(said, name="backward"):
    class Told(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):
            said.append(name)
            return gradient * 2

    return Told


def in_order(x):
    said = []
    first, second = function(said, "first"), function(said, "second")
    (first.apply(x) + second.apply(x)).sum().backward()
    return said, x.grad


def only_what_the_loss_needs(x):
    said = []
    told = function(said)
    told.apply(told.apply(x) * 2)
    told.apply(x).sum().backward()
    return said, x.grad


def a_list_outside_that_was_changed_before(x):
    OUTSIDE.clear()
    told = function(OUTSIDE)
    y = told.apply(x)
    OUTSIDE.append("between")
    y.sum().backward()
    return list(OUTSIDE), x.grad


def a_variable(x):
    count = 0

    class Counting(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):
            nonlocal count
            count += 1
            return gradient

    Counting.apply(x)
    Counting.apply(x).sum().backward()
    return count, x.grad


def an_iterator(x):
    factors = iter([2.0, 3.0, 5.0])

    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * next(factors)

        @staticmethod
        def backward(ctx, gradient):
            return gradient * next(factors)

    y = Scaled.apply(x)
    later = next(factors)
    y.sum().backward()
    return later, x.grad


def its_own_list(x):
    class Split(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):
            parts = []
            for factor in (1, 2):
                parts.append(gradient * factor)
            return sum(parts)

    Split.apply(x).sum().backward()
    return x.grad


def under_checkpoint(body):
    def program(x):
        said, counts = ["before"], {}
        said.append("more")
        counts["calls"] = 0
        y = checkpoint(body, x, said, counts, use_reentrant=False)
        y.sum().backward()
        return said, counts, x.grad

    return program


def appends(x, said, counts):
    said.append("called")
    return x.sin()


def counts_calls(x, said, counts):
    counts["calls"] += 1
    return x.sin()


def makes_its_own(x, said, counts):
    parts = []
    for factor in range(3):
        parts.append(x * factor)
    parts.append(x)
    return torch.stack(parts).sum(0).sin()


def a_module_that_counts(x):
    MODULE.calls = 10
    checkpoint(MODULE, x, use_reentrant=False).sum().backward()
    return MODULE.calls, x.grad


CHANGES = [
    *(in_order, only_what_the_loss_needs, a_list_outside_that_was_changed_before, a_variable, an_iterator),
    *(under_checkpoint(appends), under_checkpoint(counts_calls), a_module_that_counts),
]


def assert_as_eager(program):
    found = []
    for run in (program, compiled := dynascope.compile(program), compiled):
        found.append(repr(run(torch.linspace(0, 1, 4, requires_grad=True))))
    assert found[1:] == found[:1] * 2


@pytest.mark.may_break
@pytest.mark.parametrize("program", CHANGES, ids=lambda each: each.__name__)
def test_what_was_there_before_is_changed_when_eager_changes_it(program):
    assert_as_eager(program)


@pytest.mark.parametrize("program", [its_own_list, under_checkpoint(makes_its_own)], ids=lambda each: each.__name__)
def test_what_it_makes_for_itself_is_part_of_the_graph(program):
    assert_as_eager(program)


LAYER = nn.Linear(4, 4)


@pytest.mark.may_break
@pytest.mark.parametrize("scaled", [torch.ones(4), None], ids=["given", "not"])
def test_a_variable_that_holds_an_attribute_when_the_function_ends(scaled):
    def program(x, scale, layer):
        y = checkpoint(lambda v: v.sin() * (x if scale is None else scale), x, use_reentrant=False)
        scale = layer.bias
        return [y]

    x = torch.linspace(0, 1, 4)
    assert torch.equal(dynascope.compile(program, backend="eager")(x, scaled, LAYER)[0], program(x, scaled, LAYER)[0])
