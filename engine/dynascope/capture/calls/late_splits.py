"""A tensor cut in parts whose sizes only the run of the graph knows: the rows of each expert.

    counts = F.one_hot(chosen, 4).sum(0).tolist()
    parts = x.split(counts)                             ->    x.narrow(0, 0, u0), x.narrow(0, u0, u1), ...
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING

from dynascope.capture.calls import late_numbers
from dynascope.capture.values import (
    ConstantValue,
    ListValue,
    SymbolicNumber,
    TensorValue,
    TupleValue,
    Value,
    constant_of,
)

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine

MOST = 16
"""Parts. Each is a number that what is compiled after it is right for all values of."""

NAMES = frozenset(("split", "split_with_sizes"))
Narrow = Callable[[TensorValue, Value, Value, Value], Value]
"""Of a tensor the elements along a dimension, from one on, so many."""


def parts(machine: Machine, name: str, arguments: list[Value], keywords: dict[str, Value], narrow: Narrow) -> Value | None:
    """The parts; None where the call is none of these. That the sizes add up to the tensor's own is checked when the graph runs: so the
    last part has what the others leave, and parts put together again have the tensor's size."""
    if name not in NAMES or not late_numbers.are_served(machine):
        return None
    rest = {key: value for key, value in keywords.items() if key != "dim"}
    tensor, sizes, *more = map(machine.realize, (*arguments, *rest.values()))
    dimension = machine.realize(keywords["dim"]) if "dim" in keywords else more[0] if more else ConstantValue(0)
    if not isinstance(tensor, TensorValue) or not isinstance(sizes, (ListValue, TupleValue)) or type(constant_of(dimension)) is not int:
        return None
    items = [machine.realize(item) for item in sizes.items]
    if len(items) > MOST or not all(isinstance(item, SymbolicNumber) or type(constant_of(item)) is int for item in items):
        return None
    extent = machine.sizes.value(machine.extents.sizes(tensor)[constant_of(dimension)])
    start: Value = ConstantValue(0)
    found = []
    for at, item in enumerate(items):
        if at + 1 == len(items) and isinstance(item, SymbolicNumber):
            item = computed(machine, operator.sub, extent, start)
        found.append(narrow(tensor, dimension, start, item))
        start = computed(machine, operator.add, start, items[at])
    if not isinstance(start, SymbolicNumber) and not isinstance(extent, SymbolicNumber):
        return TupleValue(tuple(found)) if constant_of(start) == constant_of(extent) else None
    check_equal(machine, start, extent)
    return TupleValue(tuple(found))


def computed(machine: Machine, function: Callable[[int, int], int], one: Value, other: Value) -> Value:
    found = machine.sizes.compute(function, (one, other))
    return ConstantValue(function(constant_of(one), constant_of(other))) if found is None else found


def check_equal(machine: Machine, total: Value, extent: Value) -> None:
    """Nothing is relied on here: what the sizes are taken to be while the program is captured adds up to anything."""
    given = tuple(each.node if isinstance(each, SymbolicNumber) else constant_of(each) for each in (total, extent))
    late_numbers.check_late(machine, machine.graph.late_number(operator.eq, given, True))
