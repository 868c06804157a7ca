"""Classes whose bases the program exchanges between two calls: what `super()` finds and what `isinstance` says."""

import dynascope
import pytest
import torch

X = torch.tensor([1.0, 2.0])


def classes():
    class Root:
        def scaled(self, x):
            return x + 1

    class Left(Root):
        def scaled(self, x):
            return super().scaled(x) * 2

    class Right(Root):
        def scaled(self, x):
            return super().scaled(x) - 3

    class Both(Left, Right):
        def scaled(self, x):
            return super().scaled(x) / 4

    return Root, Left, Right, Both


def by_super(both, right):
    return lambda x: both.scaled(x)


def by_instance(both, right):
    return lambda x: x * 2 if isinstance(both, right) else x - 1


def by_class(both, right):
    return lambda x: x * 2 if issubclass(type(both), (right, int)) else x - 1


@pytest.mark.parametrize("made", [by_super, by_instance, by_class], ids=lambda made: made.__name__)
def test_exchanged_bases_are_seen(made):
    root, left, right, both = classes()
    function = made(both(), right)
    compiled = dynascope.compile(function, backend="eager")
    for bases in ((left, right), (right, left), (left,), (root,), (left, right)):
        both.__bases__ = bases
        for _ in range(2):
            assert torch.equal(compiled(X), function(X)), bases
