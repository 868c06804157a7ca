"""The forms that a row of numbers is read back as: what numbers are in several worlds, as an expression over what is known.

    14, 10094, 5056, 55476    beside n = 7, 5047, 2528, 27738    ->  2 * n

Each takes the worlds (`worlds.py`) and a row, and gives a size, or None where it does not fit. Where more than one of its kind fits it
has the worlds want another one, in which they differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations
from operator import eq
from typing import Any, Protocol

from dynascope.sizes.size import Size, hint_of

FEW_KNOWN, MOST_TRIED = 24, 64
DIVISORS = (2, 3, 4, 5, 6, 7, 8, 16, 32, 64)
FACTORS_OF_QUOTIENTS = (2, 4, 8, 16, 3)
PARTS = ((3, 2), (3, 4), (5, 4), (5, 2), (7, 4), (2, 3), (4, 3))

Row = tuple[int | float, ...]


class Asked(Protocol):
    """What forms ask of worlds."""

    wanted: dict[str, Any] | None
    """Where forms differ that fit the last row all."""
    are_all: bool

    @property
    def known(self) -> Mapping[Row, Size]: ...

    def row(self, value: Any) -> Row: ...

    def unless_wrong(self, size: Any, row: Row) -> Any: ...

    def want(self, size: Size, low: int, high: int, divisor: int) -> bool: ...

    def where_apart(self, one: Size, other: Size) -> dict[str, Any] | None: ...


def _line(worlds: Asked, row: Row) -> Any:
    """factor * known + offset."""
    for other, size in list(worlds.known.items()):
        at = next((at for at, value in enumerate(other) if value != other[0]), 0)
        run, rise = other[at] - other[0], row[at] - row[0]
        if run and rise % run == 0:
            found = worlds.unless_wrong(size * (rise // run) + (row[0] - rise // run * other[0]), row)
            if found is not None:
                return found
    return None


def _product(worlds: Asked, row: Row) -> Any:
    """The product of two known, times a number."""
    known = list(worlds.known.items())[:MOST_TRIED]
    for at, (first, left) in enumerate(known):
        if any(not value or number % value for value, number in zip(first, row, strict=True)):
            continue
        rest = tuple(number // value for value, number in zip(first, row, strict=True))
        for second, right in known[at:]:
            factor, remainder = divmod(rest[0], second[0]) if second[0] else (0, 1)
            if not remainder and factor:
                found = worlds.unless_wrong(left * right * factor, row)
                if found is not None:
                    return found
    return None


def _beside_product(worlds: Asked, row: Row) -> Any:
    """One less or more than a product of two known: where the last element lies."""
    for offset in (-1, 1):
        found = _product(worlds, tuple(number - offset for number in row))
        if found is not None:
            return found + offset
    return None


def _product_of_three(worlds: Asked, row: Row) -> Any:
    """The product of three known, times a number: so many windows in rows, in columns, in a batch."""
    for first, left in list(worlds.known.items())[:FEW_KNOWN]:
        if all(value and number % value == 0 for value, number in zip(first, row, strict=True)):
            found = _product(worlds, tuple(number // value for value, number in zip(first, row, strict=True)))
            if found is not None:
                return worlds.unless_wrong(found * left, row)
    return None


def _sum(worlds: Asked, row: Row) -> Any:
    """The sum or difference of two known, plus a number."""
    known = list(worlds.known.items())[:MOST_TRIED]
    by_rise = {tuple(b - a for a, b in zip(other, other[1:], strict=False)): size for other, size in known}
    wanted = tuple(b - a for a, b in zip(row, row[1:], strict=False))
    for other, size in known:
        rises = tuple(b - a for a, b in zip(other, other[1:], strict=False))
        for sign in (1, -1):
            partner = by_rise.get(tuple(sign * (w - r) for w, r in zip(wanted, rises, strict=True)))
            if partner is not None:
                candidate = size + sign * partner
                found = worlds.unless_wrong(candidate + (row[0] - hint_of(candidate)), row)
                if found is not None:
                    return found
    return None


def _quotient(worlds: Asked, row: Row) -> Any:
    """(known + offset) // divisor, as convolutions and pooling give. Where several offsets fit another world is wanted, which tells
    them apart."""
    known = list(worlds.known.items())[:MOST_TRIED]
    return _first_quotient(worlds, row, ((other, size, divisor) for other, size in known for divisor in DIVISORS))


def _part(worlds: Asked, row: Row) -> Any:
    """(factor * known + offset) // divisor, as what is resized by 1.5 gives."""
    known = list(worlds.known.items())[:FEW_KNOWN]
    times = ((tuple(factor * value for value in other), size * factor, divisor) for other, size in known for factor, divisor in PARTS)
    return _first_quotient(worlds, row, times)


def _first_quotient(worlds: Asked, row: Row, dividends: Iterable[tuple[Row, Size, int]]) -> Any:
    for other, size, divisor in dividends:
        low = max(divisor * number - value for number, value in zip(row, other, strict=True))
        high = min(divisor * (number + 1) - 1 - value for number, value in zip(row, other, strict=True))
        if low < high and worlds.want(size, low, high, divisor):
            return None
        if low <= high:
            return (size + (0 if low <= 0 <= high else low)) // divisor
    return None


def _multiple(worlds: Asked, row: Row) -> Any:
    """A number of times (known + offset) // divisor, as what was halved and is doubled again."""
    for factor in FACTORS_OF_QUOTIENTS:
        if all(number % factor == 0 for number in row):
            found = _quotient(worlds, tuple(number // factor for number in row))
            if found is not None or worlds.wanted is not None:
                return None if found is None else found * factor
    return None


def _share(worlds: Asked, row: Row) -> Any:
    """number // known, or // the product of two known, as what is dealt out evenly gives."""
    known = [pair for pair in list(worlds.known.items())[:MOST_TRIED] if all(pair[0])]
    for at, (first, left) in enumerate(known):
        dealt = [number * value for number, value in zip(row, first, strict=True)]
        if dealt.count(dealt[0]) == len(dealt):
            return dealt[0] // left
        for second, right in known[at:]:
            whole = dealt[0] * second[0]
            if all(part * value == whole for part, value in zip(dealt, second, strict=True)):
                return whole // (left * right)
    return None


def _larger_or_smaller(worlds: Asked, row: Row) -> Any:
    """The larger or the smaller of two known, as sentences padded to the longest give. Each of the two must be it somewhere."""
    known = list(worlds.known.items())[:FEW_KNOWN]
    found = None
    for name, choose in (("max", max), ("min", min)):
        for (first, left), (second, right) in combinations(known, 2):
            if row not in (first, second) and all(map(eq, map(choose, first, second), row)):
                other, found = found, left.apply(name, left, right)
                if other is not None and (wanted := worlds.where_apart(other, found)) is not None:
                    worlds.wanted = wanted
                    return None
    return found


def _no_more_than(worlds: Asked, row: Row) -> Any:
    """What is cut at an end, where all values that a root can be are asked: that it is so is known."""
    most = max(row)
    for first, size in list(worlds.known.items())[:FEW_KNOWN] if worlds.are_all else ():
        if row == tuple(min(number, most) for number in first):
            return size.apply("min", size, most)
    return None


def _fraction(worlds: Asked, row: Row) -> Any:
    """factor / (known + offset), as means and variances give."""
    for other, size in list(worlds.known.items())[:MOST_TRIED]:
        for offset in (0, -1):
            factor = float(round(row[0] * (other[0] + offset)))
            if other[0] + offset and factor:
                found = worlds.unless_wrong(factor / (size + offset), row)
                if found is not None:
                    return found
    return None


def _root(worlds: Asked, row: Row) -> Any:
    """The square root of known, or 1 over it, as attention scales by."""
    for size in list(worlds.known.values())[:MOST_TRIED]:
        for form in (size.apply("math.sqrt", size), 1.0 / size.apply("math.sqrt", size), size**-0.5):
            if worlds.row(form) == row:
                return form
    return None


FORMS_OF_FLOATS: Sequence[Callable[[Asked, Row], Any]] = (_fraction, _root)
SURE_FORMS: Sequence[Callable[[Asked, Row], Any]] = (_line, _product)
FORMS: Sequence[Callable[[Asked, Row], Any]] = (
    *SURE_FORMS,
    _no_more_than,
    _product_of_three,
    _sum,
    _beside_product,
    _quotient,
    _share,
    _multiple,
    _larger_or_smaller,
    _part,
)
