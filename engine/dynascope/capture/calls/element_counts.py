"""What a view needs of sizes that are computed: it has as many elements as its tensor.

    h = int(x.shape[1] ** 0.5); x.view(b, h, -1, c)      of b * n * c elements: (b * n * c) % (b * h * c) == 0

Other numbers make the program raise, so the relation is true of all calls that a graph is for. It is told before torch is asked at
other sizes: a root of a number divides few of them, and a program that runs at those alone would be taken to run at the hint alone.
What quotients and remainders need is found by asking (`sizes/likely.py`).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from dynascope.capture.values import ListValue, SymbolicNumber, TensorValue, TupleValue, Value
from dynascope.sizes import Size, hint_of
from dynascope.sizes.expression import Operation, Polynomial

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine

VIEWS = frozenset({"view", "reshape"})
DIVISIONS = frozenset({"//", "%", "min", "max"})


def rely_on_count(machine: Machine, name: str, values: list[Value]) -> None:
    if name not in VIEWS or not values or not isinstance(tensor := values[0], TensorValue):
        return
    wanted = sizes_in(machine, values[1:])
    if wanted is None or not any(map(is_by_function, wanted)):
        return
    total = math.prod(machine.extents.sizes(tensor))
    count = math.prod(size for size in wanted if not is_rest(size))
    has_rest = any(map(is_rest, wanted))
    if hint_of(count) <= 0 or machine.sizes.are_late([each for each in (total, count) if isinstance(each, Size)]):
        return
    if has_rest and hint_of(total) % hint_of(count) == 0:
        _ = total % count == 0
    elif not has_rest and hint_of(total) == hint_of(count):
        _ = total == count


def is_by_function(number: Any) -> bool:
    """Whether it follows from another function of numbers than arithmetic of whole ones."""
    pending = [number.expression] if isinstance(number, Size) else []
    while pending:
        each = pending.pop()
        if isinstance(each, Polynomial):
            pending += [atom for monomial, _ in each.terms for atom, _ in monomial]
        elif isinstance(each, Operation):
            if each.name not in DIVISIONS:
                return True
            pending += each.arguments
    return False


def is_rest(size: Any) -> bool:
    return not isinstance(size, Size) and size == -1


def sizes_in(machine: Machine, values: list[Value]) -> list[Any] | None:
    """Numbers, each by itself or all in a row; None where it is told something else."""
    if len(values) == 1 and isinstance(values[0], (ListValue, TupleValue)):
        values = [machine.realize(item) for item in values[0].items]
    found = [each.size if isinstance(each, SymbolicNumber) else getattr(each, "value", None) for each in values]
    return found if found and all(isinstance(each, (int, Size)) for each in found) else None
