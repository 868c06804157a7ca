"""One program at several sizes: the numbers that torch computes on its way, read as sizes.

    world n = 7      view(x, [14, 64])        world n = 5047    view(x, [10094, 64])
    observe([14, 64])  ->  [2*n, 64]

The same recording runs once in each world, so that its n-th observation is of the same numbers everywhere. The recordings at
other sizes leave a trail; the last one, at the sizes at hand, reads them beside its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from dynascope.grad.numbers import number_of
from dynascope.grad.reasons import DifferentiationRefused, VaryingNumberNeeded
from dynascope.sizes.worlds import Worlds

Observation = tuple[int | float, ...]


class Trail:
    """The observations of one recording. With `others`, those of the other worlds, numbers become sizes."""

    def __init__(self, worlds: Worlds, others: Sequence[Trail] = ()) -> None:
        self.worlds, self.others = worlds, others
        self.observations: list[Observation] = []

    def observe(self, data: Any) -> Any:
        numbers = tuple(_numbers(data))
        self.observations.append(numbers)
        if not self.others or not numbers:
            return data
        rows = self._rows(numbers)
        if all(len(set(row)) == 1 for row in rows):
            return data
        found = iter([self._size(row) for row in rows])
        return _with(data, found)

    def _rows(self, numbers: Observation) -> list[tuple]:
        at = len(self.observations) - 1
        beside = [other.observations[at] if at < len(other.observations) else None for other in self.others]
        if any(other is None or len(other) != len(numbers) for other in beside):
            raise DifferentiationRefused(VaryingNumberNeeded("the operations that torch runs", frozenset()))
        return list(zip(numbers, *beside, strict=True))

    def _size(self, row: tuple) -> Any:
        size = self.worlds.expression(row)
        if size is None:
            raise DifferentiationRefused(VaryingNumberNeeded(f"the number {row[0]}", frozenset()))
        return size


def _numbers(data: Any) -> Iterator[int | float]:
    if type(data) in (int, float):
        yield data
    elif isinstance(data, (list, tuple)):
        for item in data:
            yield from _numbers(item)
    elif isinstance(data, dict):
        for item in data.values():
            yield from _numbers(item)


def _with(data: Any, found: Iterator[Any]) -> Any:
    """The same data with the numbers replaced, in order."""
    if type(data) in (int, float):
        return next(found)
    if isinstance(data, (torch.SymInt, torch.SymFloat)):
        return number_of(data)
    if isinstance(data, (list, tuple)):
        items = [_with(item, found) for item in data]
        return items if isinstance(data, list) else tuple(items)
    if isinstance(data, dict):
        return {name: _with(item, found) for name, item in data.items()}
    return data
