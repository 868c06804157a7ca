"""Where each value of a group's body lives: once a row or once an element, and in which pass over the row.

    arrange(body, columns) -> Arrangement(levels=("element", "row", ...), passes=(0, 0, 1, ...))

A pass is one sweep over the columns. A `Reduce` happens at the end of its argument's pass; whoever uses its result
and the elements again is in the next. Row-level values of pass p are computed after pass p - 1 and before pass p.
"""

from __future__ import annotations

from typing import Literal

from dynascope.dataclass import dataclass
from dynascope.loops.index import Index, Symbol
from dynascope.loops.nodes import Body, IndexValue, Load, Operation, Reduce, Store

Level = Literal["row", "element"]


@dataclass(frozen=True, slots=True)
class Arrangement:
    """`levels[n]` and `passes[n]` of value n. An element-level value is needed in pass `passes[n]` first; passes that
    need it again may compute it again or keep it. `pass_count` is 0 for a pointwise group."""

    levels: tuple[Level, ...]
    passes: tuple[int, ...]
    pass_count: int


def arrange(body: Body, columns: tuple[Symbol, ...]) -> Arrangement:
    levels: list[Level] = []
    passes: list[int] = []
    inner = frozenset(columns)
    for operation in body:
        level, number = _place(operation, levels, passes, inner)
        levels.append(level)
        passes.append(number)
    used = [
        number if isinstance(operation, Reduce) else number + 1
        for operation, level, number in zip(body, levels, passes, strict=True)
        if level == "element" or isinstance(operation, Reduce)
    ]
    return Arrangement(tuple(levels), tuple(passes), max(used, default=0))


def _place(operation: Operation, levels: list[Level], passes: list[int], inner: frozenset[Symbol]) -> tuple[Level, int]:
    number = max((passes[a] for a in operation.arguments), default=0)
    if isinstance(operation, Reduce):
        return "row", number + 1
    index = index_of(operation)
    varies = index is not None and not inner.isdisjoint(index.symbols)
    if varies or any(levels[a] == "element" for a in operation.arguments):
        return "element", number
    return "row", number


def index_of(operation: Operation) -> Index | None:
    """The index expression of an operation that has one."""
    return operation.index if isinstance(operation, (Load, Store, IndexValue)) else None
