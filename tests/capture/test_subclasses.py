"""`cls.__subclasses__()`: the classes that there are now, guarded."""

import dynascope
import torch


class Base:
    weight = 1.0


class Two(Base):
    weight = 2.0


class Three(Base):
    weight = 3.0


def weighted(x):
    for cls in Base.__subclasses__():
        x = x * cls.weight
    return x


def test_a_new_subclass_is_seen():
    compiled = dynascope.compile(weighted, fullgraph=True, backend="eager")
    x = torch.ones(2)
    assert torch.equal(compiled(x), weighted(x))

    class Five(Base):
        weight = 5.0

    assert torch.equal(compiled(x), weighted(x)) and weighted(x)[0] == 30
    assert Five.weight == 5.0
