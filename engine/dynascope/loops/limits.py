"""Where a guard holds, loop variables may keep to less than their loops do: then divisions of positions come out.

    i3 in 0..127, guard i3 < 64:    (64*i2 + i3) // 64     ->  i2          (and not i2 + i3 // 64)

A part of a concatenation is read where the position lies in it, and so is what is computed there instead of read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from dynascope.loops.index import Atom, Extent, Index, Symbol, substitute, variable
from dynascope.loops.nodes import Compute, Constant, IndexValue, Operation
from dynascope.sizes import Size, is_constant, known

Limits = Mapping[Symbol, tuple[Extent, Extent]]
"""The first and the last value of each loop variable that is limited."""


def limits_of(operations: Sequence[Operation], guard: int | None) -> Limits:
    """What the guard, a value of these operations, says of loop variables."""
    limits: dict[Symbol, tuple[Extent, Extent]] = {}
    pending = [] if guard is None else [guard]
    while pending:
        operation = operations[pending.pop()]
        if not isinstance(operation, Compute):
            continue
        if operation.name == "and":
            pending += operation.arguments
            continue
        compared = [operations[argument] for argument in operation.arguments]
        match compared:
            case [IndexValue(index=index), Constant(value=bound)] if operation.name in _AT_MOST:
                _limit(limits, *_AT_MOST[operation.name](index, int(bound)))
            case [IndexValue(index=index), IndexValue(index=bound)] if operation.name in _AT_MOST and bound.is_constant:
                _limit(limits, *_AT_MOST[operation.name](index, bound.constant))
    return limits


def inside(index: Index, limits: Limits, simplify: Callable[[Index], tuple[Index, ...]]) -> tuple[Index, ...]:
    """What `simplify` makes of an index where the limits hold."""
    if not limits:
        return simplify(index)
    narrow = {symbol: Symbol(f"{symbol.name}_inside", last - first + 1) for symbol, (first, last) in limits.items()}
    moved = {symbol: variable(other) + limits[symbol][0] for symbol, other in narrow.items()}
    back = {other: variable(symbol) + -limits[symbol][0] for symbol, other in narrow.items()}
    found = simplify(substitute(index, partial(_replaced, moved)))
    return tuple(substitute(each, partial(_replaced, back)) for each in found)


def _replaced(by: Mapping[Symbol, Index], atom: Atom) -> Index | None:
    return by.get(atom) if isinstance(atom, Symbol) else None


_AT_MOST: dict[str, Callable[[Index, Extent], tuple[Index, Extent]]] = {
    "less": lambda index, bound: (index, bound - 1),
    "less_equal": lambda index, bound: (index, bound),
    "greater": lambda index, bound: (index * -1, -bound - 1),
    "greater_equal": lambda index, bound: (index * -1, -bound),
}
"""A comparison as: this index is at most that number."""


def _limit(limits: dict[Symbol, tuple[Extent, Extent]], index: Index, most: Extent) -> None:
    """Of `index <= most`: with all others as small as can be, each loop variable leaves so much room."""
    if any(isinstance(part, Size) for part in (most, index.constant, *index.bounds, *(c for _, c in index.terms))):
        _limit_alone(limits, index, most)
        return
    least = sum(_least(limits, atom, factor) for atom, factor in index.terms) + index.constant
    for atom, factor in index.terms:
        if not isinstance(atom, Symbol):
            continue
        first, last = limits.get(atom, (0, atom.extent - 1))
        room = most - (least - _least(limits, atom, factor))
        first, last = (first, min(last, room // factor)) if factor > 0 else (max(first, -(room // -factor)), last)
        if first <= last and (first, last) != (0, atom.extent - 1):
            limits[atom] = first, last


def _limit_alone(limits: dict[Symbol, tuple[Extent, Extent]], index: Index, most: Extent) -> None:
    """The same of one loop variable and a number where sizes vary: what algebra tells of all of them."""
    if len(index.terms) != 1 or not isinstance(index.terms[0][0], Symbol):
        return
    ((symbol, factor),) = index.terms
    first, last = limits.get(symbol, (0, symbol.extent - 1))
    room = most - index.constant
    if is_constant(factor, 1) and known("<", room, last):
        last = room
    elif is_constant(factor, -1) and known(">", -room, first):
        first = -room
    else:
        return
    if known("<=", first, last):
        limits[symbol] = first, last


def _least(limits: Limits, atom: Atom, factor: int) -> int:
    first, last = limits.get(atom, (0, atom.extent - 1)) if isinstance(atom, Symbol) else (0, atom.extent - 1)
    return factor * (first if factor > 0 else last)
