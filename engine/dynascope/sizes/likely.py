"""What a program likely needs of numbers and sizes that both vary, where it does not run with any of them.

    cache[:, start : start + n] = x       of 32 rows       start + n <= 32
    x.view(b, t // w, w)                  of t rows        t % w == 0

    likely([(number, size), ...], pinned)  ->  functions that rely on one relation each, or on a number dividing several

Each is true of the call at hand. Whether the program runs where it holds, who asks finds out; what it does not need is taken back.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from itertools import product
from typing import Any

from dynascope.sizes.expression import Polynomial, Root
from dynascope.sizes.size import Size, hint_of, roots_of

MOST = 12
"""Pairs: each relation is tried in worlds of its own."""


def likely(pairs: Iterable[tuple[Any, Any]], pinned: Collection[str]) -> Iterator[Callable[[], bool]]:
    """Of numbers that operations are given, each beside a size of a tensor that the operation is given, where more than one root varies.
    A function says whether there was anything to rely on."""
    together = _first((pair for pair in pairs if _is_plain(pair[0]) and len(_names(pair).difference(pinned)) > 1), MOST)
    for relies, pair in product((_stays_within, _divides), together):
        yield partial(_rely, relies, [pair])
    for number in dict.fromkeys(number for number, _ in together):  # windows that divide rows and columns
        yield partial(_rely, _divides, [pair for pair in together if pair[0] is number])


def _first(pairs: Iterable[tuple[Any, Any]], count: int) -> list[tuple[Any, Any]]:
    """So many different ones: who gives them looks no further."""
    found: dict[tuple[Any, Any], None] = {}
    for pair in pairs:
        found[pair] = None
        if len(found) == count:
            break
    return list(found)


def _rely(relies: Callable[[Any, Any], bool], pairs: list[tuple[Any, Any]]) -> bool:
    return sum(relies(number, size) for number, size in pairs) > 0


def _stays_within(number: Any, size: Any) -> bool:
    return hint_of(number) <= hint_of(size) and bool(number <= size)


def _divides(number: Any, size: Any) -> bool:
    """Of a number that varies by itself, and is no case of its own."""
    is_root = isinstance(number, Size) and _names([number]) == {str(number.expression)}
    return is_root and hint_of(number) > 1 and hint_of(size) % hint_of(number) == 0 and bool(size % number == 0)


def _is_plain(number: Any) -> bool:
    """No quotient or remainder: what is left of a size is within it anyway."""
    expression = number.expression if isinstance(number, Size) else None
    return not isinstance(expression, Polynomial) or all(isinstance(atom, Root) for monomial, _ in expression.terms for atom, _ in monomial)


def _names(numbers: Iterable[Any]) -> set[str]:
    return {root.name for root in roots_of(numbers)}
