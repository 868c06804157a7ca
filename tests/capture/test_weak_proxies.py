"""`weakref.proxy` from outside: its attributes are those of the object, as long as that is there."""

import weakref

import pytest
import torch
from dynascope import compile
from harness import graphs_of

X = torch.tensor([1.0, -2.0, 3.0])


class Strategy:
    def __init__(self, rate=1.5):
        self.rate, self.calls, self.shift = rate, 0, torch.ones(3)

    def step(self, x):
        self.calls += 1
        return x * self.rate + self.shift

    @property
    def double(self):
        return self.rate * 2


class Other(Strategy):
    pass


class Holder:
    kept = None


HOLDER = Holder()


def calls(x):
    return HOLDER.kept.step(x) * HOLDER.kept.double


def writes(x):
    HOLDER.kept.last = x + 1
    found = HOLDER.kept.last * 2
    del HOLDER.kept.last
    return found, hasattr(HOLDER.kept, "last")


def asks_its_class(x):
    kept = HOLDER.kept
    answers = [isinstance(kept, cls) for cls in (Strategy, Other, int, weakref.ProxyType)]
    return x + 1, answers, type(kept) is weakref.ProxyType, kept.__class__ is Strategy


def is_kept_elsewhere(x):
    HOLDER.other = HOLDER.kept
    return x + 1, HOLDER.other is HOLDER.kept


@pytest.mark.parametrize("program", [calls, writes, asks_its_class, is_kept_elsewhere])
def test_as_in_python(program):
    found, expected = [], []
    compiled, made = graphs_of(program, fullgraph=True)
    for function, into in ((program, expected), (compiled, found)):
        strategy = Strategy()
        HOLDER.kept = weakref.proxy(strategy)
        into += [function(X), function(X), strategy.calls, sorted(vars(strategy))]
    assert repr(found) == repr(expected) and made


def test_another_object_is_seen():
    compiled = compile(lambda x: x * 2 if isinstance(HOLDER.kept, Other) else x * HOLDER.kept.rate, fullgraph=True)
    first, second = Strategy(3.0), Other()
    for strategy, factor in ((first, 3), (second, 2), (first, 3)):
        HOLDER.kept = weakref.proxy(strategy)
        assert torch.equal(compiled(X), X * factor)


def test_one_that_is_gone():
    strategy = Strategy(3.0)
    HOLDER.kept = weakref.proxy(strategy)
    compiled = compile(lambda x: x * HOLDER.kept.rate)
    assert torch.equal(compiled(X), X * 3)
    del strategy
    with pytest.raises(ReferenceError):
        compiled(X)
