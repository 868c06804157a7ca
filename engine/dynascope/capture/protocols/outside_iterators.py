"""Iterators that a break left alive: what they still give is read off what they iterate over, and followed.

    for layer in enumerate(layers): ...break...     the rest of the function meets the `enumerate`, at its second item

Followed are `zip` and `enumerate` over lists, tuples, dictionaries and ranges, where few items are left and some of them are
objects: a loop over layers. A loop over numbers or many tensors is left to Python turn by turn: its turns share one body. So is one
over a few tensors where a turn breaks again.
The real iterator is brought to its place when the compiled code ends.
"""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

import torch

from dynascope.capture.values import (
    CountValue,
    DictValue,
    InstanceValue,
    IteratorValue,
    ListValue,
    TupleValue,
    Value,
    ZipValue,
    own_dictionary,
)
from dynascope.guards.guard import Equals, LengthIs
from dynascope.guards.iterators import LEAVES, OF_DICTIONARIES, leaves_of, position_in
from dynascope.guards.source import ItemSource, ReducedSource, Source

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine
    from dynascope.capture.outside import Outside

FEW, FEW_TENSORS = 32, 8
MORE_THAN_A_BODY = 2
"""Of so many turns left to Python there are as many regions: what ends one, and what begins the next."""
PLAIN = (int, float, bool, complex, str, bytes, type(None))


def can_follow(iterator: Any, follows_data: bool) -> bool:
    """Whether its items are known, and are few objects, or very few tensors where those are to be followed."""
    try:
        leaves = list(leaves_of(iterator))
    except RuntimeError:  # the dictionary has changed
        return False
    if not leaves or None in leaves:
        return False
    turns = min(len(items) - position for items, position in leaves)
    objects = [item for items, _ in leaves for item in items if type(item) not in PLAIN]
    if not objects:
        return turns <= 0
    return turns <= FEW if not all(map(is_data, objects)) else turns <= (FEW_TENSORS if follows_data else 0)


def is_data(item: Any) -> bool:
    """A tensor or number, or a batch of them: other ones of the kind run through the same code."""
    if type(item) in (tuple, list):
        return all(map(is_data, item))
    if type(item) is dict:
        return all(map(is_data, item.values()))
    return isinstance(item, torch.Tensor) or type(item) in PLAIN


def breaks_again(value: Value) -> bool:
    """Whether an iterator that a break leaves alive was followed over data from an earlier break to this one: nothing is gained, and
    each turn would be compiled by itself, which is no less only where few are left."""
    if not isinstance(value, (IteratorValue, ZipValue)) or value.source is None or not value.changed:
        return False
    leaves = list(filter(None, leaves_of(value.object)))
    is_long = min((len(items) - position for items, position in leaves), default=0) > MORE_THAN_A_BODY
    return is_long and all(is_data(item) for items, _ in leaves for item in items)


def follow(outside: Outside, iterator: Any, source: Source) -> Value:
    """The value of an iterator that `can_follow` takes; its type is guarded already."""
    guards = outside.machine.guards
    state = ReducedSource(source)
    made_of, place = iterator.__reduce__(), ItemSource(state, 1)
    if type(iterator) in OF_DICTIONARIES:
        # What is left, in a list that is made for whoever asks.
        left = made_of[1][0]
        guards.add(ItemSource(place, 0), LengthIs(len(left)))
        items = tuple(outside.lazy(item, ItemSource(ItemSource(place, 0), at)) for at, item in enumerate(left))
        value: Value = IteratorValue(items, cls=type(iterator))
    elif type(iterator) not in LEAVES:
        guards.add(state, LengthIs(2))
        guards.add(place, LengthIs(len(made_of[1])))
        parts = made_of[1] if type(iterator) is zip else made_of[1][:1]
        values = tuple(part_of(outside, part, ItemSource(place, at)) for at, part in enumerate(parts))
        if type(iterator) is enumerate:
            guards.add(ItemSource(place, 1), Equals(made_of[1][1]))
            values = (*values, CountValue(made_of[1][1], 1))
        value = ZipValue(values, type(iterator))
    elif len(made_of) == 2:  # nothing is left, and it is not said of what
        guards.add(state, LengthIs(2))
        guards.add(ItemSource(place, 0), LengthIs(len(made_of[1][0])))
        value = IteratorValue(
            items_of(outside, outside.realize(made_of[1][0], ItemSource(place, 0))), cls=type(iterator)
        )
    else:
        guards.add(state, LengthIs(3))
        guards.add(ItemSource(state, 2), Equals(made_of[2]))
        sequence = outside.realize(made_of[1][0], ItemSource(place, 0))
        items = sequence if isinstance(sequence, ListValue) else items_of(outside, sequence)
        value = IteratorValue(items, cls=type(iterator))
        value.position = position_in(made_of)
    value.source, value.object = source, iterator
    return outside.remember(iterator, value)


def is_spoiled(machine: Machine, iterator: Any) -> bool:
    """Whether the program has changed the dictionary below an iterator, which then raises, or gives other items."""
    for below in gc.get_referents(iterator):
        if isinstance(below, dict):
            for key in (id(below), ("contents", id(below))):
                known = machine.outside.by_identity.get(key)
                if isinstance(known, DictValue) and known.changed:
                    return True
            if any(isinstance(value, InstanceValue) and own_dictionary(value) is below for value in machine.written):
                return True
    return False


def part_of(outside: Outside, part: Any, source: Source) -> Value:
    """An iterator below another one, followed as that is."""
    if id(part) not in outside.by_identity:
        outside.guard_type(part, source)
        outside.by_source[source] = follow(outside, part, source)
    return outside.realize(part, source)


def items_of(outside: Outside, sequence: Value) -> tuple[Value, ...]:
    from dynascope.capture.protocols.iteration import elements

    return sequence.items if isinstance(sequence, TupleValue) else tuple(elements(outside.machine, sequence))
