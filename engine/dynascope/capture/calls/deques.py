"""`collections.deque`: an object whose contents are a list, with an end that falls off where it has a greatest length.

One from outside may still grow: its length, its ends, and what is put at its end and taken off are followed without a look at the rest
(`protocols/lists.py`). What asks for all of it takes it at the length that it has; where that was seen to change, such a look is left to
Python until the deque is full (`Outside.contents`).
"""

from __future__ import annotations

import collections
from typing import TYPE_CHECKING, Any

from dynascope.capture.calls.arguments import Arguments, Keywords, argument
from dynascope.capture.calls.containers import clear, count, method, place_of, reverse, without
from dynascope.capture.calls.iterators import index_in
from dynascope.capture.calls.objects import holding
from dynascope.capture.calls.pure import fails_like
from dynascope.capture.calls.registry import MEANINGS, meaning
from dynascope.capture.protocols import items, lists, operators
from dynascope.capture.protocols.contents import contents_of, is_deque, longest
from dynascope.capture.protocols.iteration import elements
from dynascope.capture.reasons import ProgramRaises
from dynascope.capture.signals import Break
from dynascope.capture.values import (
    NONE,
    REVERSED_DEQUE,
    ConstantValue,
    InstanceValue,
    IteratorValue,
    ListValue,
    Value,
    boolean,
)

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine

DEQUE = collections.deque


@meaning(DEQUE)
def make(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    limit = machine.object_of(argument(arguments, keywords, 1, "maxlen", NONE))
    given = argument(arguments, keywords, 0, "iterable", ListValue([]))
    held = elements(machine, given)
    if limit is not None and (type(limit) is not int or limit < 0):
        raise Break(ProgramRaises("ValueError", machine.expression()))
    return made(last(held, limit), limit)


def last(held: list[Value], limit: int | None) -> list[Value]:
    """What stays, where what is too many falls off at the left."""
    return held if limit is None else held[max(len(held) - limit, 0) :]


def made(held: list[Value], limit: int | None) -> InstanceValue:
    value = InstanceValue(DEQUE)
    value.arguments = (ConstantValue(limit),)
    return holding(value, ListValue(list(held)))


def put(machine: Machine, value: ListValue, held: list[Value], *, at_left: bool = False) -> Value:
    """New contents, which may be too many."""
    limit = longest(value)
    items.replace(machine, value, held[:limit] if at_left else last(held, limit))
    return NONE


def put_at_end(machine: Machine, value: ListValue, more: list[Value]) -> Value:
    """Of one from outside that may still grow nothing else is known."""
    if value.is_unread and longest(value) != len(value.object):
        lists.add(machine, value, more)
        return NONE
    return put(machine, value, [*value.items, *more])


@method(DEQUE)
def append(machine: Machine, value: ListValue, item: Value) -> Value:
    return put_at_end(machine, value, [item])


@method(DEQUE)
def appendleft(machine: Machine, value: ListValue, item: Value) -> Value:
    return put(machine, value, [item, *value.items], at_left=True)


@method(DEQUE)
def extend(machine: Machine, value: ListValue, more: Value) -> Value:
    return put_at_end(machine, value, elements(machine, more))


@method(DEQUE)
def __iadd__(machine: Machine, value: ListValue, more: Value) -> Value:
    put_at_end(machine, value, elements(machine, more))
    return value.instance or value


@method(DEQUE)
def extendleft(machine: Machine, value: ListValue, more: Value) -> Value:
    return put(machine, value, [*elements(machine, more)[::-1], *value.items], at_left=True)


@method(DEQUE)
def insert(machine: Machine, value: ListValue, at: Value, item: Value) -> Value:
    place, held, limit = index_in(machine, at), list(value.items), longest(value)
    if limit is not None and len(held) >= limit:
        raise machine.throw(IndexError, "deque already at its maximum size")
    held.insert(place, item)
    items.replace(machine, value, held)
    return NONE


@method(DEQUE)
def pop(machine: Machine, value: ListValue) -> Value:
    return taken(machine, value, -1)


@method(DEQUE)
def popleft(machine: Machine, value: ListValue) -> Value:
    return taken(machine, value, 0)


def taken(machine: Machine, value: ListValue, at: int) -> Value:
    item = lists.take(machine, value, at)
    if item is not None:
        return item
    if not value.items:
        raise machine.throw(IndexError, "pop from an empty deque")
    left = list(value.items)
    item = left.pop(at)
    items.replace(machine, value, left)
    return item


@method(DEQUE)
def rotate(machine: Machine, value: ListValue, steps: Value = ConstantValue(1)) -> Value:  # noqa: B008
    turned = collections.deque(value.items)
    turned.rotate(index_in(machine, steps))
    items.replace(machine, value, list(turned))
    return NONE


@method(DEQUE)
def index(machine: Machine, value: ListValue, item: Value, *bounds: Value) -> Value:
    at = place_of(machine, value, item, bounds)
    if at is not None:
        return ConstantValue(at)
    raise fails_like(machine, lambda held, *others: DEQUE(held).index(*others), value, item, *bounds)


@method(DEQUE)
def remove(machine: Machine, value: ListValue, item: Value) -> Value:
    at = place_of(machine, value, item)
    if at is None:
        raise fails_like(machine, lambda held, item: DEQUE(held).remove(item), value, item)
    return without(machine, value, at)


@method(DEQUE)
def copy(machine: Machine, value: ListValue) -> Value:
    return made(value.items, longest(value))


@method(DEQUE)
def __len__(machine: Machine, value: ListValue) -> Value:
    return lists.length(machine, value)


@method(DEQUE)
def __iter__(machine: Machine, value: ListValue) -> Value:
    """Who puts something in or takes it out meanwhile is told so by Python."""
    return IteratorValue(value, value, type(iter(DEQUE())))


@method(DEQUE)
def __reversed__(machine: Machine, value: ListValue) -> Value:
    return IteratorValue(value, value, REVERSED_DEQUE)


@method(DEQUE)
def __add__(machine: Machine, value: ListValue, more: Value) -> Value:
    return limited(value, [*value.items, *deque_items(machine, more)])


@method(DEQUE)
def __mul__(machine: Machine, value: ListValue, times: Value) -> Value:
    return limited(value, list(value.items) * index_in(machine, times))


@method(DEQUE)
def __imul__(machine: Machine, value: ListValue, times: Value) -> Value:
    put(machine, value, list(value.items) * index_in(machine, times))
    return value.instance or value


def limited(value: ListValue, held: list[Value]) -> Value:
    """Another deque, as long as this one may be."""
    limit = longest(value)
    return made(last(held, limit), limit)


def deque_items(machine: Machine, value: Value) -> list[Value]:
    contents = contents_of(machine, value)
    if not isinstance(contents, ListValue) or not is_deque(contents):
        raise Break(ProgramRaises("TypeError", machine.expression()))
    return contents.items


def _comparison(op: operators.Operator) -> Any:
    def run(machine: Machine, value: ListValue, other: Value) -> Any:
        contents = contents_of(machine, other)
        if not isinstance(contents, ListValue) or not is_deque(contents):
            return ConstantValue(NotImplemented)
        return operators.compare_items(machine, op, value, contents)

    run.__name__ = op.method
    return run


for _op in operators.COMPARISONS.values():
    method(DEQUE)(_comparison(_op))


@method(DEQUE)
def __contains__(machine: Machine, value: ListValue, item: Value) -> Value:
    return boolean(items.contains(machine, value, item))


@method(DEQUE)
def __getitem__(machine: Machine, value: ListValue, key: Value) -> Value:
    at = items.index_of(machine, key, "deque") if value.is_unread else None
    found = lists.from_end(machine, value, at) if isinstance(at, int) else None
    return value.items[place_in(machine, value, key)] if found is None else found


@method(DEQUE)
def __setitem__(machine: Machine, value: ListValue, key: Value, item: Value) -> Value:
    """An iterator goes on, as in CPython, and finds the item."""
    changed = list(value.items)
    changed[place_in(machine, value, key)] = item
    machine.journal.set(value, "items", changed)
    machine.write(value)
    return NONE


def place_in(machine: Machine, value: ListValue, key: Value) -> int:
    at = items.index_of(machine, key, "deque")
    if not isinstance(at, int):
        raise Break(ProgramRaises("TypeError", machine.expression()))
    if not -len(value.items) <= at < len(value.items):
        raise machine.throw(IndexError, "deque index out of range")
    return at


for _shared in (clear, count, reverse):
    method(DEQUE)(_shared)
MEANINGS[DEQUE.__copy__], MEANINGS[DEQUE.__rmul__] = MEANINGS[DEQUE.copy], MEANINGS[DEQUE.__mul__]
