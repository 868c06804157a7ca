"""How numbers hang together that a program runs with others of only together.

    s0 = 16, 20, 33    k = 32, 40, 66           ties(...)  ->  {"k": 2 * s0}
    h = 4, 5    w = 4, 6    l = 16, 30          ties(...)  ->  {"l": h * w}

A guess, of what was seen at the calls so far: it is relied on, a guard asks at every call, and no answer hangs on it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import combinations_with_replacement, product
from typing import Any, Generic, TypeVar

from dynascope.dataclass import dataclass

Key = TypeVar("Key", bound=Hashable)
Row = Sequence[int]
Forms = Callable[[Row, Mapping[Any, Row]], Iterator["Tie[Any]"]]

LEAST = 2
"""0 and 1 are cases of their own."""
ENOUGH = 2
"""Calls. Of the first alone only what is needed is guessed of, and then only what was another from call to call."""
FEWEST_TOLD = 6
"""What is less is twice another number, or near it, by chance: of one call alone that says nothing."""
DIVISORS = (2, 3, 4, 8, 16, 32)
NEAR = 2
"""What two sizes may differ by that are seen once: 8 and 9 differ by one, 8 and 16 by a factor."""
MOST_FACTOR = 4096
MOST_KEYS = 8


@dataclass(frozen=True)
class Tie(Generic[Key]):
    """`(factor * the product of keys + offset) // divisor`, or of their sum."""

    keys: tuple[Key, ...]
    factor: int = 1
    offset: int = 0
    divisor: int = 1
    is_sum: bool = False

    @property
    def is_exact(self) -> bool:
        """Whether it is a product or a sum, which numbers hardly are by chance."""
        return self.offset == 0 and self.divisor == 1

    @property
    def is_difference(self) -> bool:
        """Whether either of the two gives the other."""
        return self.factor == 1 and self.divisor == 1 and len(self.keys) == 1

    def of(self, values: Sequence[Any]) -> Any:
        """Of ints, or of sizes, in the order of `keys`."""
        whole = self.factor * (sum(values[1:], values[0]) if self.is_sum else math.prod(values[1:], start=values[0])) + self.offset
        return whole if self.divisor == 1 else whole // self.divisor


def ties(rows: Mapping[Key, Row], needed: AbstractSet[Key]) -> dict[Key, Tie[Key]]:
    """Numbers as what gives them of others: of each, as it was at the calls that were looked at, the latest last. Those that others
    are given by are given by none, and each tie is of a needed number, or of what gives one. Parts and large differences, which
    numbers are by chance too, are found where nothing else is."""
    are_first = all(len(row) < ENOUGH for row in rows.values())
    if are_first:
        rows = {key: row for key, row in rows.items() if key in needed}
        needed = {key for key in needed if key in rows and rows[key][-1] >= FEWEST_TOLD}
    else:
        rows = {key: row for key, row in rows.items() if len({*row}) > 1}
    found = _ties(rows, needed, _likely_forms)
    return found if found or are_first else _ties(rows, needed, _other_forms)


def _ties(rows: Mapping[Key, Row], needed: AbstractSet[Key], forms: Forms) -> dict[Key, Tie[Key]]:
    found: dict[Key, Tie[Key]] = {}
    used: set[Key] = set()
    asked = sorted(rows, key=lambda key: (key not in needed, -rows[key][-1]))[:MOST_KEYS]
    for key in sorted(asked, key=lambda key: -rows[key][-1]):
        others = {other: rows[other] for other in asked if other != key and other not in found}
        fitting = (tie for tie in forms(rows[key], others) if key in needed or (tie.is_exact and not needed.isdisjoint(tie.keys)))
        tie = next((tie for tie in fitting if _fits(tie, rows[key], rows)), None) if key not in used else None
        if tie is not None:
            found[key] = tie
            used.update(tie.keys)
    return found


def _fits(tie: Tie[Key], row: Row, rows: Mapping[Key, Row]) -> bool:
    return list(row) == [tie.of(values) for values in zip(*(rows[key] for key in tie.keys), strict=True)]


def _likely_forms(row: Row, others: Mapping[Key, Row]) -> Iterator[Tie[Key]]:
    """What may give a number, the likeliest first."""
    number = row[-1]
    if number < LEAST:
        return
    yield from (tie for tie in _differences(row, others) if abs(tie.offset) <= NEAR)
    given = {key: other[-1] for key, other in others.items() if other[-1] >= LEAST}
    yield from (Tie((key,), number // each) for key, each in given.items() if number % each == 0)
    pairs = [(one, other) for one, other in combinations_with_replacement(given, 2) if number % (given[one] * given[other]) == 0]
    by_factor = sorted((Tie(pair, number // (given[pair[0]] * given[pair[1]])) for pair in pairs), key=lambda tie: tie.factor)
    yield from (tie for tie in by_factor if tie.factor <= MOST_FACTOR)
    yield from (Tie(pair, is_sum=True) for pair in combinations_with_replacement(given, 2) if pair[0] != pair[1])


def _other_forms(row: Row, others: Mapping[Key, Row]) -> Iterator[Tie[Key]]:
    if row[-1] < LEAST:
        return
    for key, divisor in product(others, DIVISORS):
        yield from (Tie((key,), offset=offset, divisor=divisor) for offset in (0, divisor - 1, *range(1, divisor - 1)))
    yield from _differences(row, others)


def _differences(row: Row, others: Mapping[Key, Row]) -> list[Tie[Key]]:
    return [Tie((key,), offset=row[-1] - other[-1]) for key, other in others.items()]
