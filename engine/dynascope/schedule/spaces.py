"""Iteration spaces: laying one loop nest over another, splitting loops until both are made of the same pieces.

[6, 4]  over  [2, 12]   ->   pieces [2, 3, 4]:  i0 = 3*p0 + p1, i1 = p2;   j0 = p0, j1 = 4*p1 + p2
"""

from __future__ import annotations

from dynascope.dataclass import dataclass
from dynascope.loops.index import ZERO, Extent, Index, Symbol, affine
from dynascope.sizes import divided, is_constant, same


@dataclass(frozen=True, slots=True)
class Piece:
    """A loop of a common space: how often it runs, and whether reductions run over it."""

    size: Extent
    reduced: bool


def common_pieces(left: tuple[Piece, ...], right: tuple[Extent, ...]) -> tuple[Extent, ...] | None:
    """The sizes of the coarsest common refinement of two row-major spaces; None where they do not divide, whatever the
    sizes that vary are."""
    pieces: list[Extent] = []
    a, b = [p.size for p in left if not is_constant(p.size, 1)], [size for size in right if not is_constant(size, 1)]
    while a and b:
        small = _common(a[-1], b[-1])
        if small is None:
            return None
        pieces.append(small)
        for side in (a, b):
            side[-1] = divided(side[-1], small)[0]
            if is_constant(side[-1], 1):
                side.pop()
    return None if a or b else tuple(reversed(pieces))


def _common(left: Extent, right: Extent) -> Extent | None:
    """The smaller of two sizes, where it divides the other."""
    for small, large in ((left, right), (right, left)):
        if is_constant(divided(large, small)[1], 0):
            return small
    return None


def lay(sizes: tuple[Extent, ...], symbols: tuple[Symbol, ...]) -> tuple[Index, ...]:
    """Each loop of `sizes` as an index over the pieces `symbols`, which refine it."""
    result, rest = [], list(symbols)
    for size in reversed(sizes):
        step, terms = 1, {}
        while not same(step, size):
            symbol = rest.pop()
            terms[symbol] = step
            step = step * symbol.extent
        result.append(affine(terms) if terms else ZERO)
    return tuple(reversed(result))
