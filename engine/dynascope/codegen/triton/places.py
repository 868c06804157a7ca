"""Where in memory something lies, as a pointer that is moved on: first by what is the same for a whole program, then along one
dimension of the tile after the other, last by a number.

    x[64*r0 + c0 + 2*s0 - 65], r0 and c0 dimensions of the tile      ->      x + 2*s0 + 64*r0 + c0 - 65

Of a sum of 32 bits a compiler cannot know that it does not wrap, so that it computes the address of each element by itself. Moved on
in steps, elements of one row share the row's address, and a number is part of the instruction that reads: the nine elements of a
window have one address. No part is wider than the whole is, and each can be 0: what fits into 32 bits does so in parts too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from dynascope.loops.index import Atom, Extent, Index
from dynascope.sizes import Polynomial, Size


def in_steps(index: Index, dimensions: Callable[[Atom], Iterable[int]]) -> tuple[list[Index], int]:
    """The parts of an index, in the order in which a pointer is moved on by them, and the number that is left. `dimensions` are those of
    the tile that an atom varies along."""
    number = _number_in(index.constant)
    parts: dict[tuple[int, ...], Index] = {(): Index((), index.constant - number)}
    for atom, coefficient in index.terms:
        along = tuple(sorted(dimensions(atom)))
        part = parts.get(along, Index())
        parts[along] = Index((*part.terms, (atom, coefficient)), part.constant)
    ordered = [parts[along] for along in sorted(parts, key=lambda along: (len(along), along))]
    return [part for part in ordered if part.terms or part.constant.__class__ is Size], number


def _number_in(constant: Extent) -> int:
    """The number that is added to a size: -1 of `2*n - 1`."""
    if constant.__class__ is not Size:
        return constant
    expression = constant.expression
    if isinstance(expression, Polynomial) and expression.terms[-1][0] == ():
        return expression.terms[-1][1]
    return 0
