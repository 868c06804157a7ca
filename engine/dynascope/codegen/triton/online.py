"""Softmax in one pass fewer: the sum of exponentials found along with the maximum it is taken from.

pass 0: m = max(x)                    pass 0: m and s together: each lane keeps the sum for its own maximum,
pass 1: s = sum(exp(x - m))    ->             and one exponential an element moves either of the two
                                      end:    s = sum(s of lane * exp(m of lane - m))
"""

from __future__ import annotations

from dynascope.loops.nodes import Body, Compute, Reduce, Store
from dynascope.schedule.passes import Arrangement


def online_sums(body: Body, arrangement: Arrangement) -> dict[int, int]:
    """Sums to be found a pass early, each with its maximum; only where that leaves their own pass nothing to do."""
    by_pass: dict[int, dict[int, int | None]] = {}
    for number, operation in enumerate(body):
        if isinstance(operation, Reduce):
            ends = arrangement.passes[number] - 1
            by_pass.setdefault(ends, {})[number] = _maximum_of(number, body)
    stores = {
        arrangement.passes[n] for n, o in enumerate(body) if isinstance(o, Store) and arrangement.levels[n] == "element"
    }
    sums: dict[int, int] = {}
    for ends, found in by_pass.items():
        if ends not in stores and all(_runs_before(m, ends, arrangement) for m in found.values()):
            sums.update(found)
    return sums


def _runs_before(maximum: int | None, ends: int, arrangement: Arrangement) -> bool:
    return maximum is not None and arrangement.passes[maximum] == ends


def _maximum_of(number: int, body: Body) -> int | None:
    """The maximum m of sum(exp(x - m)) where m is of the same x; None for any other reduction."""
    match body[number]:
        case Reduce(kind="sum", arguments=(exponential,)):
            difference = _argument_of(body, exponential, "exp")
        case _:
            return None
    match body[difference] if difference is not None else None:
        case Compute(name="subtract", arguments=(value, maximum)):
            found = body[maximum]
            same = isinstance(found, Reduce) and found.kind == "max" and found.arguments == (value,)
            return maximum if same and found.dtype.is_floating_point else None
    return None


def _argument_of(body: Body, number: int, name: str) -> int | None:
    operation = body[number]
    return operation.arguments[0] if isinstance(operation, Compute) and operation.name == name else None
