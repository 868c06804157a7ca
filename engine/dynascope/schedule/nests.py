"""The loops of a finished group: split where that removes quotients, ordered by memory, merged where nothing tells
them apart, and named r0, r1, ... (rows) and c0, c1, ... (columns).
"""

from __future__ import annotations

from collections.abc import Callable

from dynascope.loops.body import instantiate
from dynascope.loops.index import Extent, Index, Quotient, Remainder, Substitution, Symbol, affine, variable
from dynascope.loops.nodes import Body, Load, Reduce, Scan, Store
from dynascope.schedule.passes import index_of
from dynascope.sizes import divided, is_constant, known, order_of, same

Symbols = tuple[Symbol, ...]
MOST_SPLITS = 12


def shaped(body: Body, rows: Symbols, columns: Symbols) -> tuple[Body, Symbols, Symbols]:
    """The body over better loops. Reductions keep their element order where a place (argmax) depends on it."""
    body, rows, columns = _split_all(body, rows, columns)
    rows = _by_memory(body, rows)
    if not _order_matters(body):
        columns = _by_memory(body, columns)
    body, rows = _merge(body, rows)
    body, columns = _merge(body, columns)
    return _renamed(body, rows, columns)


def rewritten(body: Body, change: Callable[[Index], Index]) -> Body:
    """The body with every index expression changed."""
    return tuple(
        instantiate(operation, lambda n: n, change) if index_of(operation) is not None else operation
        for operation in body
    )


def indices_of(body: Body) -> list[Index]:
    return [index for index in map(index_of, body) if index is not None]


def _substituted(body: Body, mapping: dict[Symbol, Index]) -> Body:
    return rewritten(body, Substitution(mapping.get))


# -- splitting ----------------------------------------------------------------------------------------------------------


def _split_all(body: Body, rows: Symbols, columns: Symbols) -> tuple[Body, Symbols, Symbols]:
    for number in range(MOST_SPLITS):
        found = _splittable(body)
        if found is None:
            break
        symbol, divisor = found
        outer = Symbol(f"{symbol.name}_{number}a", divided(symbol.extent, divisor)[0])
        inner = Symbol(f"{symbol.name}_{number}b", divisor)
        body = _substituted(body, {symbol: variable(outer) * divisor + variable(inner)})
        rows, columns = (_replaced(loops, symbol, (outer, inner)) for loops in (rows, columns))
    return body, rows, columns


def _splittable(body: Body) -> tuple[Symbol, Extent] | None:
    """A loop and a divisor of its extent whose quotient or remainder some index takes."""
    for index in indices_of(body):
        for atom in index.atoms:
            if isinstance(atom, (Quotient, Remainder)):
                found = _divides(atom)
                if found is not None:
                    return found
    return None


def _divides(atom: Quotient | Remainder) -> tuple[Symbol, Extent] | None:
    for inner, coefficient in atom.dividend.terms:
        if isinstance(inner, Symbol) and not is_constant(coefficient, 0):
            part, rest = divided(atom.divisor, coefficient)
            if is_constant(rest, 0) and _cuts(part, inner.extent):
                return inner, part
    return None


def _cuts(part: Extent, extent: Extent) -> bool:
    """Whether a loop is some runs of `part` steps, for all sizes."""
    if known(">", part, 1) is not True:  # the index may go down: -s0
        return False
    whole, rest = divided(extent, part)
    return is_constant(rest, 0) and not is_constant(whole, 1)


def _replaced(loops: Symbols, old: Symbol, new: Symbols) -> Symbols:
    return tuple(s for loop in loops for s in (new if loop == old else (loop,)))


# -- ordering -----------------------------------------------------------------------------------------------------------


def _order_matters(body: Body) -> bool:
    return any(isinstance(op, Scan) or (isinstance(op, Reduce) and op.kind in ("argmax", "argmin")) for op in body)


def _by_memory(body: Body, loops: Symbols) -> Symbols:
    """Loops with large strides outside, small ones inside, as the stores have them, or the loads where nothing is
    stored along them."""
    if len(loops) < 2:
        return loops
    stores = [op.index for op in body if isinstance(op, Store)]
    loads = [op.index for op in body if isinstance(op, Load)]

    def key(position_and_loop: tuple[int, Symbol]) -> tuple[object, int]:
        position, loop = position_and_loop
        for group in (stores, loads):
            strides = [order_of(abs(index.coefficient(loop))) for index in group if loop in index.symbols]
            if strides:
                return min(strides), position
        return order_of(0), position

    return tuple(loop for _, loop in sorted(enumerate(loops), key=key))


# -- merging ------------------------------------------------------------------------------------------------------------


def _merge(body: Body, loops: Symbols) -> tuple[Body, Symbols]:
    position = len(loops) - 2
    while position >= 0:
        outer, inner = loops[position], loops[position + 1]
        if all(_mergeable(index, outer, inner) for index in indices_of(body)):
            merged = Symbol(f"{outer.name}{inner.name}", outer.extent * inner.extent)
            body = rewritten(body, lambda index, o=outer, i=inner, m=merged: _merged(index, o, i, m))
            loops = (*loops[:position], merged, *loops[position + 2 :])
        position -= 1
    return body, loops


def _mergeable(index: Index, outer: Symbol, inner: Symbol) -> bool:
    for atom in index.atoms:
        if isinstance(atom, (Quotient, Remainder)) and {outer, inner} & atom.dividend.symbols:
            return False
    return same(index.coefficient(outer), index.coefficient(inner) * inner.extent)


def _merged(index: Index, outer: Symbol, inner: Symbol, merged: Symbol) -> Index:
    rest = {atom: c for atom, c in index.terms if atom not in (outer, inner)}
    return affine({**rest, merged: index.coefficient(inner)}, index.constant)


def _renamed(body: Body, rows: Symbols, columns: Symbols) -> tuple[Body, Symbols, Symbols]:
    new_rows = tuple(Symbol(f"r{k}", s.extent) for k, s in enumerate(rows))
    new_columns = tuple(Symbol(f"c{k}", s.extent) for k, s in enumerate(columns))
    names = dict(zip(rows + columns, new_rows + new_columns, strict=True))
    return _substituted(body, {old: variable(new) for old, new in names.items()}), new_rows, new_columns
