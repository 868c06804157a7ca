"""Parts of tensors that numbers say which only the run of the graph knows: that they lie inside is relied on.

    x.narrow(0, u0, u1), x[u0:u0 + u1]        ->  u0 >= 0, u1 >= 0, u0 + u1 <= x.size(0)

Where it is not so, what takes the number runs operator by operator: `narrow` raises then, and a slice ends sooner. Sizes that the program
itself reads are those of this case, and so is what it decides: there the graph asks, and raises in the other case: the region runs as it
was written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch

from dynascope.capture.calls.late_numbers import check_late
from dynascope.capture.library_checks import CHECKED
from dynascope.capture.sizes import number_in
from dynascope.capture.values import (
    ConstantValue,
    SliceValue,
    SymbolicNumber,
    TensorValue,
    TupleValue,
    Value,
    constant_of,
)
from dynascope.sizes import Size, known
from dynascope.sizes.expression import roots_in
from dynascope.sizes.relations import COMPARISONS
from dynascope.sizes.size import hint_of, relation_of

if TYPE_CHECKING:
    from dynascope.capture.calls.tensors import Operation
    from dynascope.capture.machine import Machine

Place = tuple[int, Any, Any]
"""A dimension, the first element and the one behind the last."""


def rely_on_places(machine: Machine, operation: Operation) -> None:
    if not machine.sizes.scope.late:
        return
    values = [machine.realize(value) for value in operation.values]
    if not values or not isinstance(values[0], TensorValue):
        return
    for dimension, start, stop in places_of(operation.name, values):
        if not machine.sizes.are_late([start, stop]):
            continue
        extent = machine.extents.sizes(values[0])[dimension]
        for name, left, right in ((">=", start, 0), (">=", stop - start, 0), ("<=", stop, extent)):
            is_open = known(name, left, right) is None and machine.sizes.are_late([left, right])
            if is_open and COMPARISONS[name](hint_of(left), hint_of(right)):
                relation = relation_of(name, left, right)
                machine.sizes.scope.log.add(relation, machine.user_stack())
                if relation not in machine.late_places:
                    machine.sizes.scope.decided = lambda relation: ask(machine, {root.name for root in relation.roots()})
                    machine.journal.set_item(machine.late_places, relation, (name, left, right))


def make_sure(machine: Machine, found: Any) -> None:
    """Of what these sizes rely on that follow from a part."""
    if machine.late_places:
        sizes = [each for each in (found if isinstance(found, tuple) else (found,)) if isinstance(each, Size)]
        ask(machine, {root.name for size in sizes for root in roots_in(size.expression)} & machine.sizes.scope.late)


def ask(machine: Machine, names: set[str]) -> None:
    """The graph asks for what is relied on of these roots, and raises where it is not so."""
    for relation, place in list(machine.late_places.items()):
        if place is not None and names.intersection(root.name for root in relation.roots()):
            name, *sides = place
            machine.journal.set_item(machine.late_places, relation, None)
            holds = machine.graph.late_number(COMPARISONS[name], tuple(_operand(machine, side) for side in sides), True)
            holds.meta[CHECKED] = True
            check_late(machine, holds)


def _operand(machine: Machine, size: Any) -> Any:
    return SymbolicNumber(size, machine.graph).node if isinstance(size, Size) else size


def places_of(name: str, values: list[Value]) -> Iterator[Place]:
    """Of a call of `narrow`, or of a subscript of slices."""
    if name == "narrow" and len(values) == 4 and type(dimension := constant_of(values[1])) is int:
        start, length = map(number_in, values[2:])
        if isinstance(start, (int, Size)) and isinstance(length, (int, Size)):
            yield dimension, start, start + length
    elif name in ("getitem", "__getitem__") and len(values) == 2:
        keys = values[1].items if isinstance(values[1], TupleValue) else [values[1]]
        for dimension, key in _by_dimension(keys, values[0].example.dim()):
            if not isinstance(key, SliceValue):
                continue
            start, stop, step = map(number_in, key.parts)
            if stop is not None and step in (None, 1):
                yield dimension, 0 if start is None else start, stop


def _by_dimension(keys: Sequence[Value], rank: int) -> Iterator[tuple[int, Value]]:
    """The keys of a subscript with the dimensions that they read from, as far as that is known: a mask reads several, `None` none."""
    taken = [_dimensions_taken(key) for key in keys]
    dimension = 0
    for key, count in zip(keys, taken, strict=True):
        if count is None:
            return
        if count == REST:
            if None in taken or taken.count(REST) > 1:
                return
            count = rank - sum(taken) + REST
        elif count == 1 and dimension < rank:
            yield dimension, key
        dimension += count


REST = -1


def _dimensions_taken(key: Value) -> int | None:
    """`REST` of an ellipsis, None where it is not looked for."""
    if isinstance(key, TensorValue):
        return key.example.dim() if key.example.dtype in (torch.bool, torch.uint8) else 1
    if isinstance(key, (SliceValue, SymbolicNumber)):
        return 1
    if isinstance(key, ConstantValue):
        if key.value is Ellipsis:
            return REST
        return 0 if key.value is None or isinstance(key.value, bool) else 1 if isinstance(key.value, int) else None
    return None
