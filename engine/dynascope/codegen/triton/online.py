"""Softmax and variance in one pass fewer: what is summed up of differences is found along with what they are taken from.

pass 0: m = max(x)                    pass 0: m and s together: each lane keeps the sum for its own maximum,
pass 1: s = sum(exp(x - m))    ->             and one exponential an element moves either of the two
                                      end:    s = sum(s of lane * exp(m of lane - m))

pass 0: m = sum(x) / n                pass 0: each lane keeps the squares around its own mean (Welford, Technometrics 4, 1962)
pass 1: q = sum((x - m) ** 2)  ->     end:    q = sum(q of lane + n of lane * (m of lane - m) ** 2), as Chan, Golub and LeVeque
                                              (1979) bring parts together
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from dynascope.loops.index import Extent
from dynascope.loops.nodes import Body, Compute, Constant, Reduce, Store
from dynascope.schedule.passes import Arrangement


@dataclass(frozen=True, slots=True)
class Online:
    """Sums that are found a pass early, each with the reduction it is found along with."""

    exponentials: dict[int, int]
    """Of exponentials, with the maximum."""
    squares: dict[int, int]
    """Of squares around the mean, with the sum that the mean is of."""

    def partner(self, total: int) -> int | None:
        return self.exponentials.get(total, self.squares.get(total))


def online_sums(body: Body, arrangement: Arrangement, columns: Extent) -> Online:
    """Only where that leaves the sums' own pass nothing to do."""
    by_pass: dict[int, dict[int, tuple[str, int] | None]] = {}
    for number, operation in enumerate(body):
        if isinstance(operation, Reduce):
            by_pass.setdefault(arrangement.passes[number] - 1, {})[number] = _partner_of(number, body, columns)
    stores = _passes_with_stores(body, arrangement)
    found = Online({}, {})
    for ends, partners in by_pass.items():
        if ends in stores or not all(p is not None and arrangement.passes[p[1]] == ends for p in partners.values()):
            continue
        for number, partner in partners.items():
            assert partner is not None
            getattr(found, partner[0])[number] = partner[1]
    return found


def sweeps_left(body: Body, arrangement: Arrangement, online: Online) -> int:
    """How many passes over the elements there are."""
    last = max(_passes_with_stores(body, arrangement), default=0)
    for number, operation in enumerate(body):
        if isinstance(operation, Reduce) and online.partner(number) is None:
            last = max(last, arrangement.passes[number] - 1)
    return last + 1


def _passes_with_stores(body: Body, arrangement: Arrangement) -> set[int]:
    return {
        arrangement.passes[n] for n, o in enumerate(body) if isinstance(o, Store) and arrangement.levels[n] == "element"
    }


def _partner_of(number: int, body: Body, columns: Extent) -> tuple[str, int] | None:
    """Of sum(exp(x - m)) the maximum m of the same x, of sum((x - m) ** 2) the sum that the mean m of x is of; None for others."""
    match body[number]:
        case Reduce(kind="sum", arguments=(value,)):
            pass
        case _:
            return None
    match body[value]:
        case Compute(name="exp", arguments=(difference,)):
            maximum = _subtracted(body, difference)
            found = None if maximum is None else body[maximum[1]]
            same = isinstance(found, Reduce) and found.kind == "max" and maximum and found.arguments == (maximum[0],)
            return ("exponentials", maximum[1]) if same and maximum and found.dtype.is_floating_point else None
        case Compute(name="multiply", arguments=(difference, other)) if difference == other:
            mean = _subtracted(body, difference)
            total = None if mean is None else _total_of(body, mean[1], columns)
            found = None if total is None else body[total]
            same = isinstance(found, Reduce) and found.kind == "sum" and mean and found.arguments == (mean[0],)
            return ("squares", total) if same and total is not None and found.dtype == torch.float32 else None
    return None


def _subtracted(body: Body, number: int) -> tuple[int, int] | None:
    """a and b of a - b."""
    match body[number]:
        case Compute(name="subtract", arguments=(left, right)):
            return left, right
    return None


def _total_of(body: Body, mean: int, columns: Extent) -> int | None:
    """What is divided by the number of columns."""
    match body[mean]:
        case Compute(name="divide", arguments=(total, count)):
            divisor = body[count]
            if isinstance(divisor, Constant) and isinstance(columns, int) and divisor.value == columns:
                return total
    return None
