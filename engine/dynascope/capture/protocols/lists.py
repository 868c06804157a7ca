"""Lists from outside that nobody looks into: what is put at their end, and how long they are, without saying what they hold.

    self.losses.append(loss)     ->  effect: `self.losses.extend([loss])`; no guard on the length
    len(self.losses)             ->  a guard on it, and a number that varies once it was seen to
    self.free.popleft()          ->  the item at 0, a guard that it is there; effect: it is taken from there

A log that grows is another list at each call, and the same program; so is a queue.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dynascope.capture.protocols.contents import is_deque, longest
from dynascope.capture.values import ConstantValue, DictValue, ListValue, SetValue, SymbolicNumber, TupleValue, Value
from dynascope.guards.guard import Equals, IsThere, LengthIs, TruthIs
from dynascope.guards.source import AttributeSource, ItemSource, LengthSource

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine


def add(machine: Machine, value: ListValue, more: Sequence[Value]) -> None:
    """At the end, whatever is before it."""
    for item in tuple(more):
        machine.journal.record(value.add(item))
    machine.write(value)


def length(machine: Machine, value: ListValue | TupleValue | DictValue | SetValue) -> Value:
    if not isinstance(value, ListValue) or not value.is_unread or value.source is None:
        return ConstantValue(len(value.items))
    place, options, more = LengthSource(value.source), machine.options, len(value.added) - sum(value.taken)
    limit = longest(value) if value.added and is_deque(value) else None
    if place in options.symbolic - options.fixed and options.dynamic is not False:
        before = machine.outside.realize(len(value.object), place)
        known = machine.sizes.compute(operator.add, [before, ConstantValue(more)]) or before
    else:
        machine.guards.add(value.source, LengthIs(len(value.object)))
        known = ConstantValue(len(value.object) + more)
    return known if limit is None else limited(machine, value, known, limit)


def limited(machine: Machine, value: ListValue, known: Value, limit: int) -> Value:
    """How long a deque is from which what is too many falls off; that it is full, or is not, is relied on."""
    machine.guards.add(AttributeSource(value.source, "maxlen"), Equals(limit))
    number: Any = known.size if isinstance(known, SymbolicNumber) else machine.object_of(known)
    return known if number <= limit else ConstantValue(limit)


def is_filled(machine: Machine, value: ListValue) -> bool:
    if not value.is_unread or value.instance is not None or value.source is None:
        return len(value.items) > 0
    if value.added:
        return True
    gone = sum(value.taken)
    if not gone:
        machine.guards.add(value.source, TruthIs(bool(value.object)))
        return bool(value.object)
    left = len(value.object) > gone
    if left:
        machine.guards.add(ItemSource(value.source, gone), IsThere())
    else:
        machine.guards.add(value.source, LengthIs(gone))
    return left


def from_end(machine: Machine, value: ListValue, at: int) -> Value | None:
    """An item that is counted from the end, or the first of a deque, where that is there; None for what takes a look at all."""
    if not value.is_unread or value.source is None or type(at) is not int or at > 0 or (at == 0 and not is_deque(value)):
        return None
    if value.instance is not None and not is_deque(value):
        return None
    if at == 0:
        may_fall_off = bool(value.added) and longest(value) is not None
        return at_end(machine, value, 0) if sum(value.taken) < len(value.object) and not may_fall_off else None
    if -at <= len(value.added):
        return value.added[at]
    if value.added or sum(value.taken) - at > len(value.object):
        return None
    return at_end(machine, value, at)


def is_open(value: ListValue) -> bool:
    """Whether its ends are known without a look: of no subclass, and nothing falls off where something is put."""
    if not value.is_unread or value.source is None:
        return False
    return value.instance is None or (is_deque(value) and longest(value) is None)


def at_end(machine: Machine, value: ListValue, at: int) -> Value:
    """The item at 0 or -1, -2, ... of what is left of it, which is there. That is guarded whatever else it holds."""
    first, last = value.taken
    if is_deque(value):
        machine.guards.add(AttributeSource(value.source, "maxlen"), Equals(longest(value)))
    machine.guards.add(ItemSource(value.source, first + last + (0 if at == 0 else -at - 1)), IsThere())
    place = first if at == 0 else at - last
    return machine.outside.lazy(value.object[place], ItemSource(value.source, place))


def take(machine: Machine, value: ListValue, at: int) -> Value | None:
    """The first item (0) or the last one (-1), taken off; None for what takes a look at all."""
    if not is_open(value):
        return None
    if value.added and at == -1:
        item = value.added.pop()
        machine.journal.record(lambda: value.add(item))
        return item
    if sum(value.taken) >= len(value.object):
        return None
    item = at_end(machine, value, at)
    machine.journal.record(value.take(at, item))
    machine.write(value)
    return item

