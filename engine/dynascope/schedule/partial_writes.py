"""A part of a tensor that is written while the rest stays: loops over the part alone, where the tensor's memory is written itself.

    cache[:, :, pos] = k        r0: 64, r1: 128, r2: 64      where(r1 == pos, k[64*r0 + r2], cache[...])     written to cache
                          ->    r0: 64, r2: 64               k[64*r0 + r2]                                   written to cache at r1 = pos

    narrowed(body, rows, {"select_scatter": "cache"})

Graphs know no writes, so such a line is a new tensor: the old elements but for some. Written to a tensor of its own that is a copy
of all, for each token. What holds of a loop wherever something is written (`r1 == pos`, `2 <= r0 < 5`) becomes the loop.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch

from dynascope.dataclass import dataclass
from dynascope.loops.body import BodyBuilder, instantiate
from dynascope.loops.index import Atom, Extent, Index, Loaded, Symbol, constant, substitute, variable
from dynascope.loops.inlining import without_unused
from dynascope.loops.nodes import Body, Compute, Constant, IndexValue, Load, Store
from dynascope.sizes import Size, is_constant, known, roots_of
from dynascope.sizes.relations import COMPARISONS

Symbols = tuple[Symbol, ...]


def narrowed(body: Body, rows: Symbols, targets: Mapping[str, str]) -> tuple[Body, Symbols] | None:
    """The body that writes to the targets in place of the results of these names, over the part that it changes; None where it
    changes all. Each of its stores has to be in `targets`."""
    body = tuple(replace(op, buffer=targets[op.buffer]) if isinstance(op, Store) else op for op in body)
    is_narrower = False
    while True:
        part = _part(body, rows)
        if part is None:
            return (body, rows) if is_narrower else None
        body, rows = _restricted(body, part.true, part.places), part.rows
        is_narrower = True


@dataclass(frozen=True, slots=True)
class _Part:
    """Where something is written: what the loops are there, and the values of the body that are true there."""

    true: frozenset[int]
    places: dict[Symbol, Index]
    rows: Symbols


def _part(body: Body, rows: Symbols) -> _Part | None:
    stores = [op for op in body if isinstance(op, Store)]
    conditions = {_condition(body, store) for store in stores}
    if len(conditions) != 1:
        return None
    (condition,) = conditions
    return None if condition is None else _loops_where(body, condition, rows)


def _condition(body: Body, store: Store) -> int | None:
    """The value that says where a store changes something; None where it may do so everywhere."""
    chosen = body[store.value]
    if store.mode != "set" or not _is_choice(chosen):
        return None
    condition, _, otherwise = chosen.arguments
    return condition if _stays(body, otherwise, condition, store) else None


def _stays(body: Body, value: int, condition: int, store: Store) -> bool:
    """Whether, where the condition does not hold, the value is what is there."""
    operation = body[value]
    if isinstance(operation, Load):
        return operation.buffer == store.buffer and operation.index == store.index and operation.guard is None
    return _is_choice(operation) and operation.arguments[0] == condition and _stays(body, operation.arguments[2], condition, store)


def _is_choice(operation: object) -> bool:
    return isinstance(operation, Compute) and operation.name == "where"


def _loops_where(body: Body, condition: int, rows: Symbols) -> _Part | None:
    """The loops where a condition holds, if it only says which of their turns do."""
    true, bounds = set(), {symbol: (0, symbol.extent) for symbol in rows}
    pending = [condition]
    while pending:
        number = pending.pop()
        operation = body[number]
        if not isinstance(operation, Compute):
            return None
        true.add(number)
        if operation.name == "and":
            pending.extend(operation.arguments)
            continue
        symbol, place = _loop(body[operation.arguments[0]]), _place(body[operation.arguments[1]])
        if symbol not in bounds or place is None or operation.name not in _BOUNDS:
            return None
        lowest, end = _BOUNDS[operation.name](place)
        first, last = bounds[symbol]
        if (lowest is not None and not is_constant(first, 0)) or (end is not None and last is not symbol.extent):
            return None
        bounds[symbol] = first if lowest is None else lowest, last if end is None else end
    places: dict[Symbol, Index] = {}
    loops = []
    for symbol, (first, end) in bounds.items():
        count = end - first
        if not (_holds(">=", first, 0) and _holds("<=", end, symbol.extent) and _holds(">=", count, 1)):
            return None
        if not is_constant(first, 0) or end is not symbol.extent:
            inner = Symbol(f"{symbol.name}_part", count)
            places[symbol] = constant(first) if is_constant(count, 1) else variable(inner) + first
            symbol = inner
        if not is_constant(count, 1):
            loops.append(symbol)
    return _Part(frozenset(true), places, tuple(loops))


_BOUNDS = {
    "equal": lambda place: (place, place + 1),
    "greater_equal": lambda place: (place, None),
    "less": lambda place: (None, place),
}
"""The first turn and the one after the last, that a comparison of a loop with a place allows."""


def _holds(name: str, left: Extent, right: Extent) -> bool:
    """Whether a part lies in its tensor. Where expressions do not tell it is so now, which is relied on."""
    answer = known(name, left, right)
    if answer is None:
        answer = not any(_is_late(size) for size in (left, right)) and bool(COMPARISONS[name](left, right))
    return answer


def _is_late(size: Extent) -> bool:
    """Whether only the run of the graph tells it."""
    return isinstance(size, Size) and any(root.name in size.scope.late for root in roots_of([size]))


def _loop(operation: object) -> Symbol | None:
    if not isinstance(operation, IndexValue) or len(operation.index.terms) != 1 or not is_constant(operation.index.constant, 0):
        return None
    ((atom, factor),) = operation.index.terms
    return atom if isinstance(atom, Symbol) and is_constant(factor, 1) else None


def _place(operation: object) -> Extent | None:
    if isinstance(operation, Constant):
        return operation.value
    return operation.index.constant if isinstance(operation, IndexValue) and operation.index.is_constant else None


def _restricted(body: Body, true: frozenset[int], places: Mapping[Symbol, Index]) -> Body:
    """The body for some turns of its loops, in which some of its values are true."""
    builder = BodyBuilder(body[0].origin)
    numbers: dict[int, int] = {}

    def moved(atom: Atom) -> Index | None:
        if isinstance(atom, Loaded):
            return variable(Loaded(numbers[atom.value], atom.extent))
        return places.get(atom)

    for number, operation in enumerate(body):
        if number in true:
            numbers[number] = builder.append(Constant(torch.bool, (), operation.origin, True))
            continue
        if isinstance(operation, Compute) and operation.name in ("where", "and"):
            known_to_hold = [a for a in operation.arguments if a in true]
            if operation.name == "where" and operation.arguments[0] in true:
                numbers[number] = numbers[operation.arguments[1]]
                continue
            if operation.name == "and" and known_to_hold:
                numbers[number] = numbers[next((a for a in operation.arguments if a not in true), known_to_hold[0])]
                continue
        if isinstance(operation, Load) and operation.guard in true:
            operation = replace(operation, guard=None)
        new = instantiate(operation, numbers.__getitem__, lambda index: substitute(index, moved))
        numbers[number] = builder.append(new)
    return without_unused(builder.body)


