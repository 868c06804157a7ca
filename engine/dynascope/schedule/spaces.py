"""Iteration spaces: laying one loop nest over another, splitting loops until both are made of the same pieces.

[6, 4]  over  [2, 12]   ->   pieces [2, 3, 4]:  i0 = 3*p0 + p1, i1 = p2;   j0 = p0, j1 = 4*p1 + p2
"""

from __future__ import annotations

from dataclasses import dataclass

from dynascope.loops.index import ZERO, Index, Symbol, affine


@dataclass(frozen=True, slots=True)
class Piece:
    """A loop of a common space: how often it runs, and whether reductions run over it."""

    size: int
    reduced: bool


def common_pieces(left: tuple[Piece, ...], right: tuple[int, ...]) -> tuple[int, ...] | None:
    """The sizes of the coarsest common refinement of two row-major spaces; None where they do not divide."""
    pieces: list[int] = []
    a, b = [p.size for p in left if p.size != 1], [size for size in right if size != 1]
    while a and b:
        small = min(a[-1], b[-1])
        if a[-1] % small or b[-1] % small:
            return None
        pieces.append(small)
        for side in (a, b):
            side[-1] //= small
            if side[-1] == 1:
                side.pop()
    return None if a or b else tuple(reversed(pieces))


def lay(sizes: tuple[int, ...], symbols: tuple[Symbol, ...]) -> tuple[Index, ...]:
    """Each loop of `sizes` as an index over the pieces `symbols`, which refine it."""
    result, rest = [], list(symbols)
    for size in reversed(sizes):
        step, terms = 1, {}
        while step < size:
            symbol = rest.pop()
            terms[symbol] = step
            step *= symbol.extent
        result.append(affine(terms) if terms else ZERO)
    return tuple(reversed(result))
