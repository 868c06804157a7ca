"""What a compiled function was called with goes when the program drops it, without the garbage collector's help."""

import gc
import weakref

import dynascope
import pytest
import torch
from dynascope import recording


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


@pytest.fixture(params=[False, True])
def recorded(request):
    """Whether somebody reads later what was compiled."""
    before = recording.use(recording.Recorder() if request.param else None)
    yield
    recording.use(before)


@pytest.mark.usefixtures("recorded")
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


@pytest.mark.usefixtures("recorded")
def test_arguments_of_a_call_that_is_compiled_for_all_sizes_go():
    compiled = dynascope.compile(lambda x: x * 2)
    gone = []
    gc.collect()
    gc.disable()
    try:
        for size in (2, 3, 4):
            tensor = torch.ones(size)
            compiled(tensor)
            gone.append(weakref.ref(tensor))
            del tensor
        assert [reference() for reference in gone] == [None, None, None]
    finally:
        gc.enable()


def test_what_a_compilation_made_is_not_looked_through_at_once():
    """What the program left is collected before it; what it made is old when it ends, else the next allocation would look through it."""
    looked_through, frozen = [], gc.get_freeze_count()

    def note(phase, info):
        if phase == "stop":
            looked_through.append(info["generation"])

    left = Thing(1)
    left.x = left
    left = weakref.ref(left)
    compiled = dynascope.compile(lambda x: (x.sin() * 2).softmax(-1) + 1)
    x = torch.ones(3, 4)
    gc.callbacks.append(note)
    try:
        compiled(x)
    finally:
        gc.callbacks.remove(note)
    assert left() is None and 1 in looked_through  # a later one of the youngest generation finds little
    assert gc.isenabled() and gc.get_freeze_count() == frozen


def test_what_the_program_froze_stays_frozen():
    gc.freeze()
    try:
        frozen = gc.get_freeze_count()
        dynascope.compile(lambda x: x.cos() - 3)(torch.ones(3))
        assert 0 < gc.get_freeze_count() <= frozen
    finally:
        gc.unfreeze()


@pytest.mark.may_break
@pytest.mark.parametrize("breaks", [False, True])
@pytest.mark.parametrize("backend", ["eager", "dynascope"])
def test_a_class_goes_with_what_was_compiled_of_it(backend, breaks):
    """Constants of a code object are no part of a cycle that Python's collector can find."""

    def run():
        class Scaled(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.scale = torch.nn.Parameter(torch.ones(3))

            def forward(self, x):
                y = self.scale * x
                if breaks:
                    print(end="")
                return y * self.scale

        module = Scaled()
        dynascope.compile(module, backend=backend)(torch.ones(3)).sum().backward()
        return weakref.ref(Scaled), weakref.ref(module.scale)

    gone = run()
    gc.collect()
    assert [reference() for reference in gone] == [None, None]
