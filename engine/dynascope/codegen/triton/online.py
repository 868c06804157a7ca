"""Softmax and variance in one pass fewer: what is summed up of differences is found along with what they are taken from.

pass 0: m = max(x)                    pass 0: m and s together: a block of elements raises m, what the lanes have summed up is
pass 1: s = sum(exp(x - m))    ->             scaled down by as much, and the block's exp(x - m) are added
                                      end:    s = sum(s of lane)

                                      so is a sum of exp(x - where(|m| == inf, 0, m)), as log-sum-exp has it

pass 0: m = sum(x) / n                pass 0: each lane keeps the squares around its own mean (Welford, Technometrics 4, 1962)
pass 1: q = sum((x - m) ** 2)  ->     end:    q = sum(q of lane + n of lane * (m of lane - m) ** 2), as Chan, Golub and LeVeque
                                              (1979) bring parts together
"""

from __future__ import annotations

import math

import torch

from dynascope.loops.index import Extent
from dynascope.loops.nodes import Body, Compute, Constant, IndexValue, Reduce, Store
from dynascope.schedule.passes import Arrangement
from dynascope.sizes import is_constant, same


def online_sums(body: Body, arrangement: Arrangement, columns: Extent) -> dict[int, int]:
    """Sums to be found a pass early, each with the reduction it is found along with: of exponentials the maximum, of squares the sum
    that the mean is of. Only where that leaves their own pass nothing to do."""
    by_pass: dict[int, dict[int, int | None]] = {}
    for number, operation in enumerate(body):
        if isinstance(operation, Reduce):
            by_pass.setdefault(arrangement.passes[number] - 1, {})[number] = _partner_of(number, body, columns)
    stores = _passes_with_stores(body, arrangement)
    sums: dict[int, int] = {}
    for ends, found in by_pass.items():
        partners = {number: partner for number, partner in found.items() if partner is not None}
        if ends not in stores and partners == found and all(arrangement.passes[p] == ends for p in partners.values()):
            sums.update(partners)
    return sums


def is_of_exponentials(body: Body, partner: int) -> bool:
    """Whether the sum that is found along with this reduction is one of exponentials; else it is one of squares."""
    operation = body[partner]
    return isinstance(operation, Reduce) and operation.kind == "max"


def sweeps_left(body: Body, arrangement: Arrangement, online: dict[int, int]) -> int:
    """How many passes over the elements there are."""
    reduces = [n for n, operation in enumerate(body) if isinstance(operation, Reduce) and n not in online]
    return 1 + max((*_passes_with_stores(body, arrangement), *(arrangement.passes[n] - 1 for n in reduces)), default=0)


def _passes_with_stores(body: Body, arrangement: Arrangement) -> set[int]:
    return {
        arrangement.passes[n] for n, o in enumerate(body) if isinstance(o, Store) and arrangement.levels[n] == "element"
    }


def _partner_of(number: int, body: Body, columns: Extent) -> int | None:
    """Of sum(exp(x - m)) the maximum m of the same x, of sum((x - m) ** 2) the sum that the mean m of x is of; None for others."""
    match body[number]:
        case Reduce(kind="sum", arguments=(value,)):
            term = body[value]
        case _:
            return None
    match term:
        case Compute(name="exp", arguments=(difference,)):
            x, shift = _subtracted(body, difference)
            partner, kind = None if shift is None else _maximum_in(body, shift), "max"
        case Compute(name="multiply", arguments=(difference, other)) if difference == other:
            x, mean = _subtracted(body, difference)
            partner, kind = None if mean is None else _total_of(body, mean, columns), "sum"
        case _:
            return None
    match None if partner is None else body[partner]:
        case Reduce(arguments=(reduced,), dtype=dtype) as found if reduced == x and found.kind == kind:
            return partner if dtype == torch.float32 or (kind == "max" and dtype.is_floating_point) else None
    return None


def _subtracted(body: Body, number: int) -> tuple[int, int] | tuple[None, None]:
    """a and b of a - b."""
    match body[number]:
        case Compute(name="subtract", arguments=(left, right)):
            return left, right
    return None, None


def has_finite_shift(body: Body, total: int) -> bool:
    """Whether this sum of exponentials takes 0 in place of a maximum that is infinite."""
    exponential = body[body[total].arguments[0]]
    _, shift = _subtracted(body, exponential.arguments[0])
    return shift is not None and _maximum_in(body, shift) != shift


def _maximum_in(body: Body, shift: int) -> int:
    """m of where(|m| == inf, 0, m); of anything else that itself."""
    match body[shift]:
        case Compute(name="where", arguments=(asked, zero, value)):
            equal, nothing = body[asked], body[zero]
        case _:
            return shift
    if not isinstance(nothing, Constant) or nothing.value != 0 or not isinstance(equal, Compute) or equal.name != "equal":
        return shift
    size, limit = (body[each] for each in equal.arguments)
    is_infinite = isinstance(limit, Constant) and limit.value == math.inf
    is_size = isinstance(size, Compute) and size.name == "absolute" and size.arguments == (value,)
    return value if is_infinite and is_size else shift


def _total_of(body: Body, mean: int, columns: Extent) -> int | None:
    """What is divided by the number of columns."""
    match body[mean]:
        case Compute(name="divide", arguments=(total, count)) if _is_number(body, count, columns):
            return total
    return None


def _is_number(body: Body, value: int, number: Extent) -> bool:
    """Whether it is this number, as a constant or, where sizes vary, computed of them."""
    match body[value]:
        case Constant(value=constant):
            return is_constant(number, constant)
        case Compute(name="cast", arguments=(size,)):
            index = body[size].index if isinstance(body[size], IndexValue) else None
            return index is not None and not index.terms and same(index.constant, number)
    return False
