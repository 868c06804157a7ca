"""A tensor whose length only the run of the graph knows, given another shape with one size left to torch: so many rows for each sample.

    visible = x[~mask]; visible.reshape(b, -1, c)      ->    k = u0 // b; visible.narrow(0, 0, k * b).reshape(b, k, c)

That nothing is left over is checked when the graph runs.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING

import torch

from dynascope.capture.calls import late_numbers
from dynascope.capture.calls.late_splits import check_equal, computed
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

NAMES = frozenset(("reshape", "view"))
LEAST = 2
"""Of the size that is found. Of fewer kernels are made for that number alone, which is made up."""
Apply = Callable[[Callable, list[Value]], Value]
"""A method of a tensor, called."""


def reshaped(machine: Machine, name: str, arguments: list[Value], keywords: dict[str, Value], apply: Apply) -> Value | None:
    """The result; None where the call is none of these."""
    if name not in NAMES or not keywords.keys() <= {"shape", "size"} or not late_numbers.are_served(machine):
        return None
    tensor, *told = map(machine.realize, (*arguments, *keywords.values()))
    wanted = [machine.realize(item) for value in told for item in numbers_of(value)]
    if not isinstance(tensor, TensorValue) or not all(map(is_number, wanted)) or [constant_of(item) for item in wanted].count(-1) != 1:
        return None
    sizes = list(map(machine.sizes.value, machine.extents.sizes(tensor)))
    if not sizes or not machine.sizes.is_late(sizes[0]) or any(map(machine.sizes.is_late, sizes[1:])):
        return None
    rows = rows_each(sizes[1:], wanted)
    if rows is None:
        return None
    for_each = product(machine, rows)
    if (found := computed(machine, operator.floordiv, sizes[0], for_each)) is None or hint_of(found) < LEAST:
        return None
    whole = computed(machine, operator.mul, found, for_each)
    check_equal(machine, whole, sizes[0])
    part = apply(torch.Tensor.narrow, [tensor, ConstantValue(0), ConstantValue(0), whole])
    return apply(getattr(torch.Tensor, name), [part, TupleValue(tuple(wanted))])


def numbers_of(value: Value) -> list[Value]:
    """Of a size that is told as one argument, or by a number each."""
    if isinstance(value, (TupleValue, ListValue)):
        return list(value.items)
    known = constant_of(value)
    return list(map(ConstantValue, known)) if isinstance(known, (tuple, list)) else [value]


def is_number(value: Value) -> bool:
    return isinstance(value, SymbolicNumber) or type(constant_of(value)) is int


def hint_of(value: Value) -> int:
    return value.size.hint if isinstance(value, SymbolicNumber) else constant_of(value)


def rows_each(sizes: list[Value], wanted: list[Value]) -> list[Value] | None:
    """The sizes that a number of rows, each of `sizes`, is divided by to find the one that is left out; None where algebra does not say."""
    sizes, wanted = list(sizes), list(wanted)
    while sizes and wanted and are_equal(sizes[-1], wanted[-1]):
        sizes.pop()
        wanted.pop()
    others = [item for item in wanted if constant_of(item) != -1]
    if len(others) == len(wanted):
        return None
    if not sizes:
        return others
    known = [constant_of(item) for item in (*sizes, *others)]
    if not all(type(each) is int and each > 0 for each in known):
        return None
    row, divisor = math.prod(known[: len(sizes)]), math.prod(known[len(sizes) :])
    return [ConstantValue(divisor // math.gcd(row, divisor))]


def are_equal(one: Value, other: Value) -> bool:
    if isinstance(one, SymbolicNumber) and isinstance(other, SymbolicNumber):
        return str(one.size) == str(other.size)
    return type(constant_of(one)) is int and constant_of(one) == constant_of(other)


def product(machine: Machine, values: list[Value]) -> Value:
    found: Value = ConstantValue(1)
    for value in values:
        found = value if constant_of(found) == 1 else computed(machine, operator.mul, found, value)
    return found
