"""Which numbers and sizes an entry expects to be others than they are at this call: not only that of the guard that failed first.

    guards: type(n) is int, n == 3; x is float32[4]       called with n = 5 and a float32[6]
    varied(guards, values)  ->  {n, x.size(0)}

Other guards fail too, and what lies below an object of another class is not looked at: there a place is read by the program's own
code (`__getitem__`, `__len__`, a property), which nobody called.
"""

from __future__ import annotations

import numbers
from collections.abc import Iterable
from contextlib import suppress

from dynascope.guards.guard import Equals, Guard, LengthIs, TypeIs
from dynascope.guards.source import AttributeSource, ConstantSource, ExtentSource, FrameValues, LengthSource, Source
from dynascope.guards.tensor_guard import TensorMatches
from dynascope.guards.world import WorldIs


def varied(guards: Iterable[Guard], values: FrameValues) -> set[Source]:
    """Of the guards of one entry."""
    found, guards = set[Source](), tuple(guards)
    may_read = _Readable(guards, values)
    for guard in guards:
        predicate = guard.predicate
        if isinstance(predicate, WorldIs):
            found.update(number_of_class(*each) for each in predicate.numbers_changed())
        if not isinstance(predicate, (Equals, LengthIs, TensorMatches)):
            continue
        if not all(may_read(source) for source in guard.sources):
            continue
        if isinstance(predicate, Equals):
            if not guard.holds(values):
                found.update(source for source in guard.sources if _is_number(source, values))
        elif isinstance(predicate, LengthIs):
            lengths = [LengthSource(source) for source in guard.sources]
            if all(map(may_read, lengths)) and not guard.holds(values):
                found.update(lengths)
        else:
            with suppress(Exception):
                found.update(_extents(guard.sources[0], predicate, values))
    return found


def number_of_class(cls: type, name: str) -> Source:
    """The place of a number that a library's class counts in (`RemovableHandle.next_id`)."""
    return AttributeSource(ConstantSource(f"{cls.__qualname__}@{id(cls)}", cls), name)


class _Readable:
    """Whether a place may be read though guards have failed: all that it lies in is of the class that it was of.

    No function that calls itself: that would be a circle, which keeps the call's arguments alive.
    """

    def __init__(self, guards: Iterable[Guard], values: FrameValues) -> None:
        self.kinds = {guard.sources[0]: guard for guard in guards if isinstance(guard.predicate, TypeIs)}
        self.values = values
        self.known: dict[Source, bool] = {}

    def __call__(self, source: Source) -> bool:
        base = getattr(source, "base", None)
        if base is None:
            return True
        if base not in self.known:
            self.known[base] = self(base) and (base not in self.kinds or self.kinds[base].holds(self.values))
        return self.known[base]


def _extents(source: Source, predicate: TensorMatches, values: FrameValues) -> list[Source]:
    changed = predicate.differing_extents(source.read(values))
    # A stride changes with the sizes, and by itself only where none of them does.
    wanted = "size" if "size" in {kind for kind, _ in changed} else "stride"
    return [ExtentSource(source, kind, d) for kind, d in changed if kind == wanted]


def _is_number(source: Source, values: FrameValues) -> bool:
    try:
        kind = type(source.read(values))
        return kind is int or (issubclass(kind, numbers.Real) and not issubclass(kind, numbers.Integral))  # NumPy's floats too
    except Exception:
        return False
