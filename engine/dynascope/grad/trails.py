"""One program at several sizes: the numbers that torch computes on its way, read as sizes.

    world n = 7      view(x, [14, 64])        world n = 5047    view(x, [10094, 64])
    observe([14, 64])  ->  [2*n, 64]

The same recording runs once in each world, so that its n-th observation is of the same numbers everywhere. The recordings at
other sizes leave a trail; the last one, at the sizes at hand, reads them beside its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from dynascope.grad.numbers import number_of
from dynascope.grad.reasons import DifferentiationRefused, VaryingNumberNeeded
from dynascope.grad.shapes import is_dense, is_surely_dense
from dynascope.grad.tape import PLAIN, Layout, Tape, Value, leaves
from dynascope.sizes import Size, evaluate, hints_of
from dynascope.sizes.worlds import Worlds

Observation = tuple[int | float | complex, ...]


class _Layout(tuple):
    """Sizes, then as many strides."""


class Trail:
    """The observations of one recording. With `others`, those of the other worlds, numbers become sizes.

    `most` observations, or as many as `count()` says then, are what a recording at other sizes can make that is the same program.
    """

    def __init__(
        self,
        worlds: Worlds,
        others: Sequence[Trail] = (),
        most: float = math.inf,
        count: Callable[[], float] | None = None,
    ) -> None:
        self.worlds, self.others, self.most, self.count = worlds, others, most, count
        self.observations: list[Observation] = []
        self.found: list[tuple | None] = []
        """The same as sizes, None where no size was found, and the operators with what they give."""
        self.dense: dict[int, bool] = {}
        """Of results, by position, whether they fill their memory."""
        self.learned = 0
        """The steps of the tape whose layouts the worlds know."""

    def observe(self, data: Any, tape: Tape) -> Any:
        numbers = _numbers(data)
        self._note(numbers)
        if not self.others or not numbers:
            self.found.append(numbers)
            return data
        return self._read(data, self._rows(numbers), tape)

    def note(self, numbers: Observation, *steps: tuple) -> None:
        """The same where there are no others beside them; with what `step` says of the operator that they were for."""
        self._note(numbers)
        self.found += numbers, *steps

    def observe_layout(self, sizes: Sequence[int], strides: Sequence[int], tape: Tape) -> tuple[Any, Any]:
        """The same of a tensor's sizes and strides. In a world where a dimension has one element its stride says nothing, nor do those of a
        tensor without elements: there they are what they would be if the tensor lay as it does here."""
        numbers = _Layout((*sizes, *strides))
        self._note(numbers)
        if not self.others:
            self.found.append(numbers)
            return tuple(sizes), tuple(strides)
        rank, rows = len(sizes), self._rows(numbers)
        usual = list(zip(numbers, *(_as_here(numbers, other, rank) for other in list(zip(*rows, strict=True))[1:]), strict=True))
        rows = [row if self.worlds.is_known(row) else other for row, other in zip(rows, usual, strict=True)] if rows else rows
        found = self._read(numbers, rows, tape)
        return tuple(found[:rank]), tuple(found[rank:])

    def _note(self, numbers: Observation) -> None:
        self.observations.append(numbers)
        if len(self.observations) > self.most:
            self._refuse_more()

    def _read(self, data: Any, rows: list[tuple], tape: Tape) -> Any:
        kind = _Layout if isinstance(data, _Layout) else tuple
        if all(len(set(row)) == 1 for row in rows):
            self.found.append(kind(row[0] for row in rows))
            return data
        self.found.append(None)
        found = [row[0] if len(set(row)) == 1 and type(row[0]) in _FIXED else self._size(row, tape) for row in rows]
        self.found[-1] = kind(found)
        return _with(data, iter(found))

    def is_dense(self, position: int, sizes: Any, strides: Any) -> bool:
        """Whether a result fills its memory, at all sizes alike. One that has holes at some is cut out of what has none at all of them."""
        cut = self.worlds.cut_results
        if cut is not None and position in cut:
            return False
        if not self.others or is_surely_dense(sizes, strides):
            self.dense[position] = is_dense(sizes, strides)
            return self.dense[position]
        everywhere = [other.dense.get(position, True) for other in self.others]
        if cut is not None and not (all(everywhere) and is_dense(hints_of(sizes), hints_of(strides))):
            cut.add(position)
            raise DifferentiationRefused(VaryingNumberNeeded("which results have holes", frozenset()))
        return is_dense(sizes, strides)

    def tell_apart(self, are_different: bool, is_sure: bool) -> None:
        """Raises `DifferentiationRefused` where two things that are one here are different in another world, or may be in one that was not
        asked."""
        numbers = (int(are_different),)
        self.observations.append(numbers)
        self.found.append(None if self.others and are_different else numbers)
        if self.others and not are_different and (not is_sure or any(different for row in self._rows(numbers) for different in row)):
            self.worlds.views_vary = True
            raise DifferentiationRefused(VaryingNumberNeeded("which views are the same", frozenset()))

    def _refuse_more(self) -> None:
        """Torch takes other steps at other sizes, and for large ones it might take them for hours."""
        if self.count is not None:
            self.most, self.count = self.count(), None
        if len(self.observations) > self.most:
            raise DifferentiationRefused(VaryingNumberNeeded("the operations that torch runs", frozenset()))

    def step(self, target: Any, results: Any) -> None:
        """An operator that was recorded. Its results follow from its operands, by a rule for all sizes."""
        self.found.append(told_of(target, [leaf.layout for leaf in leaves(results) if isinstance(leaf, Value)]))

    def holds_at(self, values: Mapping[str, Any], other: Trail) -> bool:
        """Whether a recording with these values did what this one says of all values."""
        return len(self.found) == len(other.found) and all(
            ours is None
            or (
                len(ours) == len(theirs)
                and all(
                    _is_at(each, number, values) or _says_nothing(theirs, at)
                    for at, (each, number) in enumerate(zip(ours, theirs, strict=True))
                )
            )
            for ours, theirs in zip(self.found, other.found, strict=True)
        )

    def ran_the_same(self, other: Trail) -> bool:
        """Whether a recording in another world ran the same operators."""
        return len(self.found) == len(other.found) and all(
            ours is None or (len(ours) == len(theirs) and (not ours or not callable(ours[0]) or ours[0] is theirs[0]))
            for ours, theirs in zip(self.found, other.found, strict=True)
        )

    def _rows(self, numbers: Observation) -> list[tuple]:
        at = len(self.observations) - 1
        beside = [other.observations[at] if at < len(other.observations) else None for other in self.others]
        if any(other is None or len(other) != len(numbers) for other in beside):
            raise DifferentiationRefused(VaryingNumberNeeded("the operations that torch runs", frozenset()))
        return list(zip(numbers, *beside, strict=True))

    def _size(self, row: tuple, tape: Tape) -> Any:
        """What rules gave for all sizes comes first: a form that is read off the row alone could be another one. Truth values and complex
        numbers have no form that varies."""
        if any(type(number) in _FIXED for number in row):
            raise DifferentiationRefused(VaryingNumberNeeded(f"the number {row[0]}", frozenset()))
        if not self.worlds.is_known(row):
            layouts = [leaf.layout for step in tape.steps[self.learned :] for leaf in leaves(step.outputs) if isinstance(leaf, Value)]
            self.worlds.learn(extent for layout in layouts if layout.varies for extent in (*layout.sizes, *layout.strides))
            self.learned = len(tape.steps)
        size = self.worlds.expression(row)
        if size is None:
            raise DifferentiationRefused(VaryingNumberNeeded(f"the number {row[0]}", frozenset()))
        return size


def told_of(target: Any, layouts: Sequence[Layout]) -> tuple:
    """What a trail holds of an operator that gave these results."""
    return (target, *(extent for layout in layouts for extent in (*layout.sizes, *layout.strides)))


def _says_nothing(observed: tuple, at: int) -> bool:
    """Whether it is the stride of a dimension of one element, or of a tensor of none."""
    rank = len(observed) // 2
    return isinstance(observed, _Layout) and at >= rank and (observed[at - rank] == 1 or 0 in observed[:rank])


def _as_here(here: tuple, elsewhere: tuple, rank: int) -> tuple:
    """A layout of another world, with the strides of its dimensions of one element, and all where it has no elements, made those of what
    lies without holes in the order of memory that the layout at hand has."""
    is_empty = 0 in elsewhere[:rank]
    if 1 not in elsewhere[:rank] and not is_empty:
        return elsewhere
    made, step = list(elsewhere), 1
    for dimension in sorted(range(rank), key=lambda each: (here[rank + each], here[each], -each)):
        if is_empty or (elsewhere[dimension] == 1 and here[dimension] != 1):
            made[rank + dimension] = step
        beyond = made[rank + dimension] * elsewhere[dimension]
        step = beyond if is_empty else max(step, beyond)
    return tuple(made)


def _is_at(found: Any, number: Any, values: Mapping[str, Any]) -> bool:
    if isinstance(found, Size):
        return bool(evaluate(found.expression, values) == number)
    return isinstance(number, Size) or found is number or bool(found == number)


def _numbers(data: Any) -> Observation:
    found: list[int | float | complex] = []
    _collect(data, found)
    return tuple(found)


def _collect(data: Any, found: list[int | float | complex]) -> None:
    kind = type(data)
    if kind in _NUMBERS:
        found.append(data if data == data else _same_nan(data))
    elif kind in _SEQUENCES or isinstance(data, (list, tuple)):
        for item in data:
            kind = type(item)
            if kind in _NUMBERS:
                found.append(item if item == item else _same_nan(item))
            elif kind not in _OTHERS:
                _collect(item, found)
    elif kind is dict and data:
        _collect(tuple(data.values()), found)


def _same_nan(number: Any) -> Any:
    """One object wherever it comes up: what is not a number equals nothing, and is the same in all worlds."""
    return math.nan if type(number) is float else _NAN_OF_COMPLEXES.setdefault(repr(number), number)


_NAN_OF_COMPLEXES: dict[str, complex] = {}
_FIXED = {bool, complex}
_NUMBERS = {int, float, *_FIXED}
_OTHERS = (PLAIN | {torch.Tensor}) - _NUMBERS
"""What holds no numbers, of what most arguments are."""
_SEQUENCES = {list, tuple, torch.Size}


def _with(data: Any, found: Iterator[Any]) -> Any:
    """The same data with the numbers replaced, in order."""
    if type(data) in _NUMBERS:
        return next(found)
    if isinstance(data, (torch.SymInt, torch.SymFloat)):
        return number_of(data)
    if isinstance(data, (list, tuple)):
        items = [_with(item, found) for item in data]
        return items if isinstance(data, list) else tuple(items)
    if isinstance(data, dict):
        return {name: _with(item, found) for name, item in data.items()}
    return data
