"""Integer expressions over loop variables: where a load reads and a store writes.

    i, j = Symbol("i0", 4), Symbol("i1", 8)
    affine({i: 8, j: 1})                       ->  8*i0 + i1
    floor_divide(affine({i: 8, j: 1}), 8)      ->  i0            (j < 8 is known)
    modulo(affine({i: 8, j: 1}), 8)            ->  i1

An expression is `constant + sum(coefficient * atom)`. Atoms are loop variables, values loaded by the body (indirect
indices), and quotients and remainders that could not be simplified. Every atom knows its extent (0 <= atom < extent,
None for unknown), so that simplification needs no environment. Extents are read through `Extent` alone, which is
where symbolic sizes come in later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

Extent = int
"""A size: a number of elements, steps of a loop, or a stride."""


@dataclass(frozen=True, slots=True)
class Symbol:
    """A loop variable: 0 <= name < extent."""

    name: str
    extent: Extent

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Loaded:
    """An index that the body computes: value number `value`, already wrapped and checked, in 0 <= value < extent."""

    value: int
    extent: Extent

    def __str__(self) -> str:
        return f"%{self.value}"


@dataclass(frozen=True, slots=True)
class Quotient:
    """floor(dividend / divisor), with divisor > 0."""

    dividend: Index
    divisor: Extent
    extent: Extent

    def __str__(self) -> str:
        return f"({self.dividend} // {self.divisor})"


@dataclass(frozen=True, slots=True)
class Remainder:
    """dividend mod divisor, in 0 <= value < divisor."""

    dividend: Index
    divisor: Extent
    extent: Extent

    def __str__(self) -> str:
        return f"({self.dividend} % {self.divisor})"


Atom = Symbol | Loaded | Quotient | Remainder


@dataclass(frozen=True)
class Index:
    """constant + sum of coefficient * atom. `terms` is sorted (large strides first), so equal sums compare equal."""

    terms: tuple[tuple[Atom, int], ...] = ()
    constant: int = 0
    _hash: int = field(init=False, repr=False, compare=False, default=0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((self.terms, self.constant)))

    def __hash__(self) -> int:
        return self._hash

    def __add__(self, other: Index | int) -> Index:
        if isinstance(other, int):
            return Index(self.terms, self.constant + other)
        return _collect((*self.terms, *other.terms), self.constant + other.constant)

    def __mul__(self, factor: int) -> Index:
        if factor == 0:
            return ZERO
        return _collect([(atom, c * factor) for atom, c in self.terms], self.constant * factor)

    def __str__(self) -> str:
        parts = [str(atom) if c == 1 else f"{c}*{atom}" for atom, c in self.terms]
        if self.constant or not parts:
            parts.append(str(self.constant))
        return " + ".join(parts).replace("+ -", "- ")

    @cached_property
    def bounds(self) -> tuple[int, int]:
        """The least and greatest value it can take."""
        low = high = self.constant
        for atom, coefficient in self.terms:
            reach = coefficient * (atom.extent - 1)
            low, high = low + min(reach, 0), high + max(reach, 0)
        return low, high

    @property
    def is_constant(self) -> bool:
        return not self.terms

    def coefficient(self, atom: Atom) -> int:
        """The factor of an atom among the affine terms; 0 where it does not appear."""
        return next((c for a, c in self.terms if a == atom), 0)

    def symbols(self) -> frozenset[Symbol]:
        """Every loop variable it depends on, those inside quotients and remainders included."""
        return frozenset(atom for atom in self.atoms() if isinstance(atom, Symbol))

    def loaded(self) -> frozenset[int]:
        """The body values it depends on."""
        return frozenset(atom.value for atom in self.atoms() if isinstance(atom, Loaded))

    def atoms(self) -> Iterable[Atom]:
        for atom, _ in self.terms:
            yield atom
            if isinstance(atom, (Quotient, Remainder)):
                yield from atom.dividend.atoms()


ZERO = Index()


def constant(value: int) -> Index:
    return Index((), value)


def variable(symbol: Atom) -> Index:
    """A single atom. A loop that runs once is the constant 0."""
    return ZERO if symbol.extent == 1 else Index(((symbol, 1),))


def affine(coefficients: Mapping[Atom, int], offset: int = 0) -> Index:
    return _collect(coefficients.items(), offset)


def linear(indices: Iterable[Index], strides: Iterable[int], offset: int = 0) -> Index:
    """The flat position of a multi-dimensional index."""
    result = constant(offset)
    for index, stride in zip(indices, strides, strict=True):
        result = result + index * stride
    return result


def floor_divide(dividend: Index, divisor: Extent) -> Index:
    """floor(dividend / divisor), splitting off what divides exactly."""
    whole, rest = _split(dividend, divisor)
    low, high = rest.bounds
    if low // divisor == high // divisor:
        return whole + low // divisor
    return whole + _quotient(rest, divisor)


def modulo(dividend: Index, divisor: Extent) -> Index:
    """dividend mod divisor, dropping what divides exactly."""
    _, rest = _split(dividend, divisor)
    low, high = rest.bounds
    if low // divisor == high // divisor:
        return rest + -(low // divisor) * divisor
    if len(rest.terms) == 1 and rest.constant == 0:
        ((atom, factor),) = rest.terms
        if isinstance(atom, Remainder) and factor == 1 and atom.divisor % divisor == 0:
            return modulo(atom.dividend, divisor)
    return Index(((Remainder(_not_negative(rest, divisor)[0], divisor, divisor), 1),))


def delinearize(flat: Index, sizes: Iterable[int], strides: Iterable[int]) -> tuple[Index, ...]:
    """The index of each dimension at a flat position of a dense tensor; the inverse of `linear`.

    Dimensions of size 1 have index 0 whatever their stride. The tensor must not overlap itself.
    """
    sizes, strides = tuple(sizes), tuple(strides)
    indices = [ZERO] * len(sizes)
    order = sorted((d for d in range(len(sizes)) if sizes[d] != 1), key=lambda d: -strides[d])
    rest = flat
    for dimension in order:
        stride = strides[dimension]
        indices[dimension] = floor_divide(rest, stride)
        rest = modulo(rest, stride)
    return tuple(indices)


def substitute(index: Index, replace: Callable[[Atom], Index | None]) -> Index:
    """Each loop variable or loaded value replaced (None keeps it), and the whole simplified again."""
    result = constant(index.constant)
    for atom, coefficient in index.terms:
        result = result + _substitute_atom(atom, replace) * coefficient
    return result


def _substitute_atom(atom: Atom, replace: Callable[[Atom], Index | None]) -> Index:
    if isinstance(atom, Quotient):
        return floor_divide(substitute(atom.dividend, replace), atom.divisor)
    if isinstance(atom, Remainder):
        return modulo(substitute(atom.dividend, replace), atom.divisor)
    new = replace(atom)
    return variable(atom) if new is None else new


def _collect(terms: Iterable[tuple[Atom, int]], offset: int) -> Index:
    totals: dict[Atom, int] = {}
    for atom, coefficient in terms:
        if atom.extent != 1:
            totals[atom] = totals.get(atom, 0) + coefficient
    terms = [(atom, c) for atom, c in totals.items() if c]
    if len(terms) > 1:
        terms.sort(key=_term_order)
    return _recombine(Index(tuple(terms), offset))


def _term_order(term: tuple[Atom, int]) -> tuple[int, str]:
    return -term[1], str(term[0])


def _recombine(index: Index) -> Index:
    """`d * (e // d) + e % d` is e."""
    for atom, coefficient in index.terms:
        if isinstance(atom, Remainder):
            partner = next(
                (
                    a
                    for a, c in index.terms
                    if isinstance(a, Quotient)
                    and a.divisor == atom.divisor
                    and a.dividend == atom.dividend
                    and c == coefficient * atom.divisor
                ),
                None,
            )
            if partner is not None:
                rest = tuple(t for t in index.terms if t[0] is not atom and t[0] is not partner)
                return _collect(
                    (*rest, *(atom.dividend * coefficient).terms), index.constant + atom.dividend.constant * coefficient
                )
    return index


def _split(index: Index, divisor: int) -> tuple[Index, Index]:
    """index = divisor * whole + rest, with every coefficient of rest, and its constant, in 0 <= c < divisor.

    A negative coefficient stays in rest where splitting would leave a larger rest than it removes.
    """
    whole, rest = [], []
    for atom, coefficient in index.terms:
        quotient, remainder = divmod(coefficient, divisor)
        if coefficient < 0 and remainder:
            quotient, remainder = 0, coefficient
        whole.append((atom, quotient))
        rest.append((atom, remainder))
    quotient, remainder = divmod(index.constant, divisor)
    split = _collect(whole, quotient), _collect(rest, remainder)
    return _keep_small_constant(index, split, divisor)


def _keep_small_constant(index: Index, split: tuple[Index, Index], divisor: int) -> tuple[Index, Index]:
    """Moves the constant back when that alone makes the rest fit into one period (flips: `n - 1 - i`)."""
    whole, rest = split
    low, high = rest.bounds
    shift = low // divisor
    if shift and shift == high // divisor:
        return whole + shift, rest + -shift * divisor
    return split


def _quotient(dividend: Index, divisor: int) -> Index:
    if len(dividend.terms) == 1 and dividend.constant == 0:
        ((atom, factor),) = dividend.terms
        if isinstance(atom, Quotient) and factor == 1:
            return floor_divide(atom.dividend, atom.divisor * divisor)
    dividend, periods = _not_negative(dividend, divisor)
    extent = dividend.bounds[1] // divisor + 1
    return _collect([(Quotient(dividend, divisor, extent), 1)], -periods)


def _not_negative(dividend: Index, divisor: int) -> tuple[Index, int]:
    """The dividend moved up by whole periods until it is never negative: atoms start at 0, and C truncates."""
    periods = max(0, -(dividend.bounds[0] // divisor))
    return dividend + periods * divisor, periods
