"""Iterators in C that a break left alive: what they go over, where they are, and what the next turn of a loop over one gets.

    leaves_of(enumerate([a, b]))        ([a, b], 0)
    upcoming(enumerate([a, b]))         ((0, a),)
    upcoming(iter([]))                  ()

Nothing is taken: an iterator says by `__reduce__` how it is made again.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

LEAVES = tuple(type(iter(each)) for each in ([], (), range(0)))
SEQUENCES = (list, tuple, range)
"""Of these a leaf's items can be read; a subclass may do anything when it is asked for one."""
OF_DICTIONARIES = tuple(type(iter(each)) for each in ({}, {}.values(), {}.items()))
ITERATORS = (*LEAVES, *OF_DICTIONARIES, zip, enumerate)
MANY = 100
"""What is left in a dictionary is listed by who asks what comes next: that many are not asked for one by one."""


def leaves_of(iterator: Any) -> Iterator[tuple[Any, int] | None]:
    """The sequences under an iterator, and where each is; None for what cannot be seen."""
    kind = type(iterator)
    if kind not in ITERATORS:
        yield None
        return
    made_of = iterator.__reduce__()
    if kind in OF_DICTIONARIES:
        yield made_of[1][0], 0
        return
    if kind in LEAVES:
        yield (made_of[1][0], position_in(made_of)) if type(made_of[1][0]) in SEQUENCES else None
        return
    if len(made_of) != 2:  # a strict zip says so in a third part
        yield None
        return
    for part in below(iterator, made_of):
        yield from leaves_of(part)


def position_in(made_of: tuple) -> int:
    """From CPython 3.12 on a range's iterator says None, and gives the range that is left."""
    return made_of[2] or 0 if len(made_of) == 3 else 0


def has_turns(iterator: Any) -> bool:
    """Whether `upcoming` knows what its next turn gets."""
    kind = type(iterator)
    if kind in OF_DICTIONARIES:
        return iterator.__length_hint__() <= MANY
    if kind not in ITERATORS:
        return False
    made_of = iterator.__reduce__()
    if kind in LEAVES:
        return type(made_of[1][0]) in SEQUENCES
    return len(made_of) == 2 and all(map(has_turns, below(iterator, made_of)))


def below(iterator: Any, made_of: tuple) -> tuple:
    """The iterators that a `zip` or an `enumerate` takes its items from."""
    return made_of[1] if type(iterator) is zip else made_of[1][:1]


def upcoming(iterator: Any) -> tuple:
    """The item that the iterator gives next, alone in a tuple; an empty one at its end."""
    kind, made_of = type(iterator), iterator.__reduce__()
    if kind in LEAVES and type(made_of[1][0]) in SEQUENCES:
        at = position_in(made_of)
        return tuple(made_of[1][0][at : at + 1])
    if kind in OF_DICTIONARIES:
        return tuple(made_of[1][0][:1])
    if kind not in (zip, enumerate) or len(made_of) != 2:
        raise TypeError(f"{kind.__name__} does not say what comes next")
    items = [upcoming(part) for part in below(iterator, made_of)]
    if not items or not all(items):
        return ()
    taken = tuple(item for (item,) in items)
    return ((made_of[1][1], *taken),) if kind is enumerate else (taken,)


def iterators_within(iterator: Any) -> Iterator[Any]:
    """The iterator itself, and those that it takes its items from."""
    yield iterator
    if type(iterator) in (zip, enumerate):
        for part in below(iterator, iterator.__reduce__()):
            yield from iterators_within(part)


def goes_over(iterator: Any, container: Any) -> bool:
    """Whether its items are those of a list or dictionary."""
    return any(container is each for part in iterators_within(iterator) for each in gc.get_referents(part))


def goes_over_dictionary(iterator: Any) -> bool:
    return any(type(part) in OF_DICTIONARIES for part in iterators_within(iterator))


def contained(written: Any) -> Any:
    """What is changed where the program changes a container, or the attributes of an object."""
    if isinstance(written, (list, dict)):
        return written
    try:
        return object.__getattribute__(written, "__dict__")
    except AttributeError:
        return None
