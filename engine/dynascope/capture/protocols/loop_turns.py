"""A loop that a break left goes on with one turn, which is followed whatever item it gets: all turns share one region.

    for layer in layers: x = layer(x); if x.sum() > 0: break         the rest of a turn, the next item, and the next turn up to its `if`

What the iterator gives next is read off it as it is at the region's start, and taken when the compiled code ends. Where the program
asks twice, a turn went through without a break: then it is captured again, and the loop is followed as `outside_iterators` says.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from dynascope.capture.signals import CaptureAgain
from dynascope.capture.values import (
    DictValue,
    InstanceValue,
    IteratorValue,
    ListValue,
    MutableValue,
    TurnValue,
    Value,
    ZipValue,
)
from dynascope.guards.guard import GoesOverOthers, LengthIs, TakeFromOthers
from dynascope.guards.iterators import contained, goes_over, goes_over_dictionary, has_turns, upcoming
from dynascope.guards.source import ItemSource, Source, UpcomingSource

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine
    from dynascope.capture.outside import Outside


def can_follow(iterator: Any) -> bool:
    try:
        return has_turns(iterator) and upcoming(iterator) is not None
    except RuntimeError:  # the dictionary has changed
        return False


def follow_turn(outside: Outside, iterator: Any, source: Source) -> Value:
    """The value of an iterator that has turns; its type is guarded already."""
    place = UpcomingSource(source)
    items = tuple(outside.lazy(item, ItemSource(place, at)) for at, item in enumerate(upcoming(iterator)))
    return outside.remember(iterator, TurnValue(items, source, iterator))


def next_turn(machine: Machine, value: TurnValue) -> Value | None:
    """Its next item, None at its end."""
    if value.asked and value.items:
        raise CaptureAgain(by_turns=False)
    if any(goes_over(value.object, contained(each.object)) for each in written_containers(machine, value)):
        raise CaptureAgain(by_turns=False)  # what comes next may be another item by now
    machine.guards.add(UpcomingSource(value.source), LengthIs(len(value.items)))
    machine.write(value)
    machine.journal.set(value, "asked", value.asked + 1)
    return value.items[0] if value.items else None


def written_containers(machine: Machine, value: TurnValue) -> list[MutableValue]:
    """What the program has changed of what an iterator of this kind could go over."""
    kinds = (DictValue, InstanceValue) if goes_over_dictionary(value.object) else ()
    return [each for each in machine.written if isinstance(each, (ListValue, *kinds)) and each.source is not None]


def guard_turns(machine: Machine, outside: list[Value]) -> None:
    """What one of them takes no other one gives, and what the program changes is not what one of them goes over."""
    asked = [value for value in outside if isinstance(value, TurnValue) and value.asked]
    others = [value for value in outside if isinstance(value, (TurnValue, IteratorValue, ZipValue)) and value.source is not None]
    for value, other in itertools.product(asked, others):
        if value is not other:
            if not TakeFromOthers().holds(value.object, other.object):
                raise CaptureAgain(by_turns=False)
            machine.guards.add_pair(value.source, other.source, TakeFromOthers())
    for value in asked:
        for written in written_containers(machine, value):
            if not goes_over(value.object, contained(written.object)):
                machine.guards.add_pair(value.source, written.source, GoesOverOthers())
