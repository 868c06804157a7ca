"""Which 64-bit integers of a body are computed in 32: positions, and what is computed of them where that surely fits.

    index0 = r1                                     i64, used in a comparison, as a float or in an index     ->  i32
    minimum10 = min(int(0.5 * r1 + 0.25), 63)       its bounds are those of r1                               ->  i32
    multiply42 = min(r1 + 3, 32) * min(r2 + 3, 32)  how much of a window lies inside                         ->  i32

Only in a tile whose positions have 32 bits, of which they use 30.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from dynascope.loops.nodes import Body, Compute, Constant, IndexValue, Load, Operation, Store

COMPARISONS = frozenset(("less", "less_equal", "greater", "greater_equal", "equal", "not_equal"))

_MOST = 2.0**30
_POSITION = (-_MOST, _MOST)
Bounds = tuple[float, float]


def narrow_positions(body: Body) -> frozenset[int]:
    """Positions, and what is computed of them, that are only compared, made floating, or part of an index."""
    bounds = _bounds(body)
    found = {number for number, operation in enumerate(body) if _may_be_narrow(number, operation, bounds)}
    while True:
        wide = {n for n in found if not _is_of_narrow(body, n, found)}
        for number, operation in enumerate(body):
            if not found.isdisjoint(operation.arguments) and number not in found:
                wide.update(a for a in operation.arguments if not _reads_narrow(body, operation, a))
        if found.isdisjoint(wide):
            return frozenset(found)
        found -= wide


def _may_be_narrow(number: int, operation: Operation, bounds: list[Bounds | None]) -> bool:
    if isinstance(operation, IndexValue):
        return True
    if not isinstance(operation, Compute) or operation.dtype != torch.int64 or operation.name not in _NARROW:
        return False
    found = bounds[number]
    return found is not None and found[0] >= -_MOST and found[1] <= _MOST


def _is_of_narrow(body: Body, number: int, found: set[int]) -> bool:
    """Whether what it is computed of has 32 bits too."""
    operation = body[number]
    if isinstance(operation, IndexValue):
        return True
    if operation.name == "cast":  # type: ignore[attr-defined]
        (source,) = operation.arguments
        return source in found or body[source].dtype == torch.float32
    return all(a in found or isinstance(body[a], Constant) for a in operation.arguments)


def _reads_narrow(body: Body, operation: Operation, argument: int) -> bool:
    if isinstance(operation, (Load, Store)):
        inner = operation.guard if isinstance(operation, Load) else operation.value
        return argument in operation.index.loaded and argument != inner
    if not isinstance(operation, Compute):
        return False
    if operation.name == "cast":
        return operation.dtype.is_floating_point
    numbers = [body[a].value for a in operation.arguments if isinstance(body[a], Constant)]  # type: ignore[attr-defined]
    return operation.name in COMPARISONS and all(abs(number) < 2**31 for number in numbers)


# ---- bounds ----


def _bounds(body: Body) -> list[Bounds | None]:
    """The least and the largest that a value may be; None where that is not known."""
    found: list[Bounds | None] = []
    for operation in body:
        found.append(_bounds_of(operation, [found[a] for a in operation.arguments]))
    return found


def _bounds_of(operation: Operation, given: list[Bounds | None]) -> Bounds | None:
    if isinstance(operation, IndexValue):
        low, high = operation.index.bounds
        is_known = isinstance(low, int) and isinstance(high, int) and low >= -_MOST and high <= _MOST
        return (float(low), float(high)) if is_known else _POSITION  # type: ignore[arg-type]
    if isinstance(operation, Constant):
        number = float(operation.value)
        return (number, number) if math.isfinite(number) else None
    rule = _RULES.get(operation.name) if isinstance(operation, Compute) else None
    known = [each for each in given if each is not None]
    if rule is None or len(known) != len(given) or operation.dtype.itemsize < 4:
        return None
    low, high = rule(*known)
    if operation.dtype.is_floating_point:
        rounding = 1 + max(abs(low), abs(high)) * 2.0**-20
        return low - rounding, high + rounding
    limits = torch.iinfo(operation.dtype)
    return (low, high) if limits.min <= low and high <= limits.max else None


def _products(a: Bounds, b: Bounds) -> Bounds:
    products = [x * y for x in a for y in b]
    return min(products), max(products)


_RULES: dict[str, Callable[..., Bounds]] = {
    "add": lambda a, b: (a[0] + b[0], a[1] + b[1]),
    "subtract": lambda a, b: (a[0] - b[1], a[1] - b[0]),
    "multiply": _products,
    "minimum": lambda a, b: (min(a[0], b[0]), min(a[1], b[1])),
    "maximum": lambda a, b: (max(a[0], b[0]), max(a[1], b[1])),
    "floor": lambda a: (a[0] - 1, a[1]),
    "ceil": lambda a: (a[0], a[1] + 1),
    "cast": lambda a: a,
}
_NARROW = frozenset(("add", "subtract", "multiply", "minimum", "maximum", "cast"))
"""Of what `_RULES` knows: what is 32 bits wide if its operands are."""
