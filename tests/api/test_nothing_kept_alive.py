"""What a compiled function was called with goes when the program drops it, without the garbage collector's help."""

import gc
import weakref

import dynascope
import pytest
import torch


class Thing:
    def __init__(self, x):
        self.x = x


def whole(x, thing, items):
    thing.x = thing.x + 1
    return x + thing.x + items[0]


def broken(x, thing, items):
    y = x + thing.x
    for item in items:
        y = y + item
    print(end="")
    items.append(y)
    return y


def refused(x, thing, items):
    return [eval("item + x", {"item": item, "x": x}) for item in items]


@pytest.mark.parametrize(
    ("program", "codes"), [(whole, ()), (broken, ("print-call",)), (refused, ("foreign-call",))]
)
def test_arguments_go(program, codes):
    compiled = dynascope.compile(program, backend="eager")
    thing, tensor = Thing(1), torch.ones(2, 3)
    gone = weakref.ref(thing), weakref.ref(tensor)
    gc.collect()
    gc.disable()
    try:
        with dynascope.expected(*codes):
            for _ in range(2):
                compiled(torch.zeros(2, 3), thing, [tensor])
        del thing, tensor
        assert [reference() for reference in gone] == [None, None]
    finally:
        gc.enable()
