"""Lists from outside that nobody looks into: what is put at their end, and how long they are, without saying what they hold.

    self.losses.append(loss)     ->  effect: `self.losses.extend([loss])`; no guard on the length
    len(self.losses)             ->  a guard on it, and a number that varies once it was seen to

A log that grows is another list at each call, and the same program.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dynascope.capture.protocols.contents import is_deque, longest
from dynascope.capture.values import ConstantValue, DictValue, ListValue, SetValue, TupleValue, Value
from dynascope.guards.guard import IsThere, TruthIs
from dynascope.guards.source import ItemSource, LengthSource

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine


def add(machine: Machine, value: ListValue, more: Sequence[Value]) -> None:
    """At the end, whatever is before it."""
    for item in tuple(more):
        machine.journal.record(value.add(item))
    machine.write(value)


def length(machine: Machine, value: ListValue | TupleValue | DictValue | SetValue) -> Value:
    if isinstance(value, ListValue) and value.is_unread and value.source is not None:
        place, options = LengthSource(value.source), machine.options
        may_lose_some = bool(value.added) and is_deque(value) and longest(value) is not None
        if place in options.symbolic - options.fixed and options.dynamic is not False and not may_lose_some:
            before = machine.outside.realize(len(value.object), place)
            return machine.sizes.compute(operator.add, [before, ConstantValue(len(value.added))]) or before
    return ConstantValue(len(value.items))


def is_filled(machine: Machine, value: ListValue) -> bool:
    if not value.is_unread or value.instance is not None or value.source is None:
        return len(value.items) > 0
    if value.added:
        return True
    machine.guards.add(value.source, TruthIs(bool(value.object)))
    return bool(value.object)


def from_end(machine: Machine, value: ListValue, at: int) -> Value | None:
    """An item that is counted from the end, where that is there; None for what takes a look at all."""
    if not value.is_unread or value.instance is not None or value.source is None or at >= 0:
        return None
    if -at <= len(value.added):
        return value.added[at]
    if value.added or -at > len(value.object):
        return None
    place = ItemSource(value.source, at)
    machine.guards.add(place, IsThere())
    return machine.outside.lazy(value.object[at], place)

