"""Reductions over few elements: written out, element after element.

    r0: 65536, c0: 21    max over c0 of (load x[65536*c0 + r0])
        ->    r0: 65536  maximum (maximum (load x[r0]) (load x[65536 + r0])) ...

A program of a GPU then has a row in each thread, where the elements of a row lie far apart and rows side by side. As a tile it would be as
wide as the next power of two, and its threads would share each reduction. On a processor a row is a lane: of rows walked over one by one
most lanes hold nothing, and each reduction ends across them. Sums are added up in pairs.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product as combinations
from math import prod

import torch

from dynascope.loops.body import BodyBuilder, instantiate
from dynascope.loops.index import Atom, Index, Loaded, Symbol, constant, substitute, variable
from dynascope.loops.nodes import Body, Compute, IndexValue, Load, Operation, Reduce, Scan, Store
from dynascope.schedule.whole_reductions import dependencies
from dynascope.sizes import is_constant, nominal

MOST_ELEMENTS = 32
MOST_UNWRITTEN = 64
"""Where nothing is written for each."""
LONGEST_BODY = 1000
FEWEST_ROWS = 4096
FEWEST_ROWS_OF_LANES = 64
MOST_OF_A_PLACE, MOST_OF_SEVERAL, MOST_OF_ONE = 32, 12, 4
"""Elements on a processor: what is saved is the end of a reduction, dearest where it finds a place; for that rows are read across."""
_COMBINED_BY = {"sum": "add", "prod": "multiply", "max": "maximum", "min": "minimum", "any": "or", "all": "and"}


def written_out(body: Body, rows: tuple[Symbol, ...], columns: tuple[Symbol, ...], device: torch.device) -> Body | None:
    """The body without `columns`; None where they are better walked over."""
    if not columns or not all(isinstance(symbol.extent, int) for symbol in columns):
        return None
    count = prod(symbol.extent for symbol in columns)  # type: ignore[misc]
    depends = dependencies(body, frozenset(columns))
    written = sum(count if each else 1 for each in depends)
    writes = any(isinstance(op, Store) and each for op, each in zip(body, depends, strict=True))
    if count > (MOST_ELEMENTS if writes else MOST_UNWRITTEN) or written > LONGEST_BODY:
        return None
    if device.type == "cpu":
        fits, fewest = count <= _most_of_lanes(body), FEWEST_ROWS_OF_LANES
    else:
        fits, fewest = _lies_across(body, rows, columns), FEWEST_ROWS
    if not fits or prod(nominal(symbol.extent) for symbol in rows) < fewest or any(isinstance(op, Scan) for op in body):
        return None
    places = [
        dict(zip(columns, map(constant, numbers), strict=True))
        for numbers in combinations(*(range(symbol.extent) for symbol in columns))  # type: ignore[arg-type]
    ]
    return _Writer(places).write(body, [bool(each) for each in depends])


def _most_of_lanes(body: Body) -> int:
    kinds = [op.kind for op in body if isinstance(op, Reduce)]
    if not {"argmax", "argmin"}.isdisjoint(kinds):
        return MOST_OF_A_PLACE
    return MOST_OF_SEVERAL if len(kinds) > 1 else MOST_OF_ONE


def _lies_across(body: Body, rows: tuple[Symbol, ...], columns: tuple[Symbol, ...]) -> bool:
    """Whether all that is read or written for each element runs along a row's neighbours in memory, and along no column."""
    indices = [op.index for op in body if isinstance(op, (Load, Store)) and not op.index.symbols.isdisjoint(columns)]
    return bool(indices) and all(
        any(is_constant(index.coefficient(symbol), 1) for symbol in rows)
        and not any(is_constant(index.coefficient(symbol), 1) for symbol in columns)
        for index in indices
    )


class _Writer:
    """`places` has the columns' values for each element."""

    def __init__(self, places: list[dict[Symbol, Index]]) -> None:
        self.places = places
        self.numbers: list[list[int]] = []
        """For each value of the old body those of the new one: one, or one for each element."""

    def write(self, body: Body, differs: list[bool]) -> Body:
        builder = self.builder = BodyBuilder(body[0].origin)
        for operation, is_element in zip(body, differs, strict=True):
            if isinstance(operation, Reduce):
                self.numbers.append([self._reduced(operation)])
            else:
                elements = range(len(self.places)) if is_element else (0,)
                self.numbers.append([builder.append(self._at(operation, element)) for element in elements])
        return builder.body

    def _number(self, value: int, element: int) -> int:
        found = self.numbers[value]
        return found[element] if len(found) > 1 else found[0]

    def _at(self, operation: Operation, element: int) -> Operation:
        def replaced(atom: Atom) -> Index | None:
            if isinstance(atom, Loaded):
                return variable(Loaded(self._number(atom.value, element), atom.extent))
            return self.places[element].get(atom)

        return instantiate(operation, lambda value: self._number(value, element), lambda index: substitute(index, replaced))

    def _reduced(self, reduce: Reduce) -> int:
        elements = [self._number(reduce.arguments[0], element) for element in range(len(self.places))]
        if reduce.kind in ("argmax", "argmin"):
            return self._place_of_extremum(reduce, elements)
        name = _COMBINED_BY[reduce.kind]
        return _in_pairs(elements, lambda a, b: self._compute(reduce, reduce.dtype, name, a, b))

    def _place_of_extremum(self, reduce: Reduce, elements: list[int]) -> int:
        """The first one's; a NaN is the extremum, and the first of them."""
        dtype = self.builder.operations[elements[0]].dtype
        best, place = elements[0], self._place(reduce, 0)
        for element, value in enumerate(elements[1:], start=1):
            wins = self._compute(reduce, torch.bool, "greater" if reduce.kind == "argmax" else "less", value, best)
            if dtype.is_floating_point:
                is_nan, was_nan = (self._compute(reduce, torch.bool, "is_nan", each) for each in (value, best))
                is_first = self._compute(reduce, torch.bool, "and", is_nan, self._compute(reduce, torch.bool, "not", was_nan))
                wins = self._compute(reduce, torch.bool, "or", wins, is_first)
            best = self._compute(reduce, dtype, "where", wins, value, best)
            place = self._compute(reduce, torch.int64, "where", wins, self._place(reduce, element), place)
        return place

    def _place(self, reduce: Reduce, element: int) -> int:
        return self.builder.append(IndexValue(torch.int64, (), reduce.origin, constant(element)))

    def _compute(self, reduce: Reduce, dtype: torch.dtype, name: str, *arguments: int) -> int:
        return self.builder.append(Compute(dtype, arguments, reduce.origin, name))


def _in_pairs(values: list[int], combine: Callable[[int, int], int]) -> int:
    while len(values) > 1:
        pairs = [combine(a, b) for a, b in zip(values[::2], values[1::2], strict=False)]
        values = pairs + values[len(pairs) * 2 :]
    return values[0]
