"""What the C hook asks of tensors that are written, and of an optimizer's state, says what Python says."""

from __future__ import annotations

import collections
import itertools

import pytest
import torch
from dynascope.guards.check import compile_guards
from dynascope.guards.guard import Guard, IdentityIs
from dynascope.guards.source import FrameValues, KeyedItemSource, KeySource, LocalSource
from dynascope.guards.tensor_guard import NoOverlap, WrittenAs
from torch import nn


def function(a, b, c):
    return None


def answers(guards, values):
    """What the compiled check says twice (the second time with what it remembers), and Python."""
    program = compile_guards(guards, function.__code__)
    found = FrameValues(dict(zip("abc", values, strict=True)), {}, {}, ())
    return program.holds(values, function), program.holds(values, function), all(guard.holds(found) for guard in guards)


NAMES = tuple(map(LocalSource, "abc"))
BASE = torch.arange(48.0).reshape(6, 8)
TENSORS = {
    "whole": BASE,
    "first rows": BASE[:2],
    "next rows": BASE[2:4],
    "across": BASE[1:3],
    "even columns": BASE[:, ::2],
    "odd columns": BASE[:, 1::2],
    "row over and over": BASE[0].expand(5, 8),
    "last": BASE[5, 7],
    "empty": BASE[:0],
    "elsewhere": torch.ones(3),
    "integers over it": BASE.view(torch.int32)[3:4],
    "transposed": BASE.t()[:, 4:],
}


@pytest.mark.parametrize("names", list(itertools.combinations(TENSORS, 3)), ids="-".join)
def test_apart(names):
    tensors = tuple(TENSORS[name] for name in names)
    guard = Guard(NAMES, NoOverlap(tuple(tensor.element_size() for tensor in tensors)))
    first, second, expected = answers([guard], tensors)
    assert first == second == expected


def test_apart_is_asked_again_where_a_tensor_has_moved():
    guard = Guard(NAMES, NoOverlap((4, 4, 4)))
    program = compile_guards([guard], function.__code__)
    one, two = torch.zeros(4), torch.zeros(4)
    assert program.holds((one, two, BASE), function)
    assert not program.holds((one, BASE[1], BASE), function)
    assert program.holds((one, two, BASE), function)
    assert not program.holds((one, one, BASE), function)


class Own(torch.Tensor):
    pass


LEAF = torch.ones(3, requires_grad=True)
with torch.no_grad():
    UNRECORDED = LEAF[:2]
WRITTEN = {
    "plain": torch.ones(3),
    "leaf": LEAF,
    "parameter": nn.Parameter(torch.ones(3)),
    "result": LEAF * 2,
    "view of a leaf": LEAF[:2],
    "view under no_grad": UNRECORDED,
    "view of a plain one": torch.ones(4)[:2],
    "detached": LEAF.detach(),
    "of a class of its own": torch.ones(3).as_subclass(Own),
    "data": LEAF.data,
}


@pytest.mark.parametrize("name", list(WRITTEN))
@pytest.mark.parametrize("captured", list(WRITTEN))
def test_leaves(name, captured):
    guard = Guard(NAMES[:1], WrittenAs.of(WRITTEN[captured]))
    first, second, expected = answers([guard], (WRITTEN[name], 0, 0))
    assert first == second == expected


@pytest.mark.parametrize("kind", [dict, collections.OrderedDict, lambda items: collections.defaultdict(dict, items)])
@pytest.mark.parametrize("removed", [(), (0,), (1, 3)])
def test_state_found_by_parameters(kind, removed):
    parameters = [nn.Parameter(torch.ones(2)) for _ in range(6)]
    state = kind({parameter: object() for parameter in parameters})
    for place in removed:
        del state[parameters[place]]
    for position, (parameter, value) in enumerate(state.items()):
        key = KeySource(NAMES[0], position)
        guards = [
            Guard((key,), IdentityIs(parameter)),
            Guard((KeyedItemSource(NAMES[0], key),), IdentityIs(value)),
        ]
        assert answers(guards, (state, 0, 0)) == (True, True, True)
    beyond = Guard((KeySource(NAMES[0], len(state)),), IdentityIs(state))
    assert not compile_guards([beyond], function.__code__).holds((state, 0, 0), function)


def test_state_of_another_parameter_does_not_pass():
    parameters = [nn.Parameter(torch.ones(2)) for _ in range(3)]
    state = {parameter: object() for parameter in parameters}
    guard = Guard((KeyedItemSource(NAMES[0], NAMES[1]),), IdentityIs(state[parameters[1]]))
    program = compile_guards([guard], function.__code__)
    assert [program.holds((state, each, 0), function) for each in (*parameters, nn.Parameter(torch.ones(2)))] == [False, True, False, False]
