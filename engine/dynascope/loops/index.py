"""Integer expressions over loop variables: where a load reads and a store writes.

    i, j = Symbol("i0", 4), Symbol("i1", 8)
    affine({i: 8, j: 1})                       ->  8*i0 + i1
    floor_divide(affine({i: 8, j: 1}), 8)      ->  i0            (j < 8 is known)
    modulo(affine({i: 8, j: 1}), 8)            ->  i1

An expression is `constant + sum(coefficient * atom)`. Atoms are loop variables, values loaded by the body (indirect
indices), and quotients and remainders that could not be simplified. Every atom knows its extent (0 <= atom < extent),
so that simplification needs no environment. Extents, coefficients, divisors and the constant are ints or sizes that vary:

    i = Symbol("i0", s0);  floor_divide(affine({i: 64, j: 1}), 64)    ->  i0, whatever s0 is

What is simplified holds for all values of the roots; hints are not looked at. A loop over a size that varies runs at least
once, else nothing of it is computed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from functools import cached_property, cmp_to_key, lru_cache
from typing import Any

from dynascope.dataclass import dataclass
from dynascope.sizes import Size, divided, is_constant, is_multiple, known, order_of, same
from dynascope.sizes.size import expression_of

Extent = int | Size
"""A size: a number of elements, steps of a loop, or a stride."""


class _Atom:
    """Atoms are equal when they are one by algebra: whether two sizes happen to be equal is not asked. Hashed once."""

    __slots__ = ("_hash",)
    _hash: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash(self._key()))

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if other.__class__ is not self.__class__ or self._hash != other._hash:
            return False
        return all(map(same, self._key(), other._key()))

    def __hash__(self) -> int:
        return self._hash

    def _key(self) -> tuple[Any, ...]:
        raise NotImplementedError


@dataclass(frozen=True, slots=True, eq=False)
class Symbol(_Atom):
    """A loop variable: 0 <= name < extent."""

    name: str
    extent: Extent

    def _key(self) -> tuple[Any, ...]:
        return self.name, self.extent

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True, eq=False)
class Loaded(_Atom):
    """An index that the body computes: value number `value`, already wrapped and checked, in 0 <= value < extent."""

    value: int
    extent: Extent

    def _key(self) -> tuple[Any, ...]:
        return self.value, self.extent

    def __str__(self) -> str:
        return f"%{self.value}"


@dataclass(frozen=True, slots=True, eq=False)
class Quotient(_Atom):
    """floor(dividend / divisor), with divisor > 0."""

    dividend: Index
    divisor: Extent
    extent: Extent

    def _key(self) -> tuple[Any, ...]:
        return self.dividend, self.divisor, self.extent

    def __str__(self) -> str:
        return f"({self.dividend} // {factor_text(self.divisor)})"


@dataclass(frozen=True, slots=True, eq=False)
class Remainder(_Atom):
    """dividend mod divisor, in 0 <= value < divisor."""

    dividend: Index
    divisor: Extent
    extent: Extent

    def _key(self) -> tuple[Any, ...]:
        return self.dividend, self.divisor, self.extent

    def __str__(self) -> str:
        return f"({self.dividend} % {factor_text(self.divisor)})"


Atom = Symbol | Loaded | Quotient | Remainder


@dataclass(frozen=True, eq=False)
class Index:
    """constant + sum of coefficient * atom. `terms` is sorted (large strides first), so equal sums compare equal."""

    terms: tuple[tuple[Atom, Extent], ...] = ()
    constant: Extent = 0
    _hash: int = field(init=False, repr=False, compare=False, default=0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((self.terms, self.constant)))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        # Of unequal hashes nothing is compared: sizes would answer by their hints.
        if other.__class__ is not Index or self._hash != other._hash:
            return False
        return self.terms == other.terms and self.constant == other.constant

    def __add__(self, other: Index | Extent) -> Index:
        if other.__class__ is not Index:
            return Index(self.terms, self.constant + other)
        if not other.terms or not self.terms:
            return Index(self.terms or other.terms, self.constant + other.constant)
        return _collect((*self.terms, *other.terms), self.constant + other.constant)

    def __mul__(self, factor: Extent) -> Index:
        if factor.__class__ is int and factor in (0, 1):
            return self if factor else ZERO
        return _collect([(atom, c * factor) for atom, c in self.terms], self.constant * factor)

    def __str__(self) -> str:
        return self._text

    @cached_property
    def _text(self) -> str:
        parts = [str(atom) if is_constant(c, 1) else f"{factor_text(c)}*{atom}" for atom, c in self.terms]
        if not is_constant(self.constant, 0) or not parts:
            parts.append(str(self.constant))
        return " + ".join(parts).replace("+ -", "- ")

    @cached_property
    def bounds(self) -> tuple[Extent, Extent]:
        """The least and greatest value it can take."""
        low = high = self.constant
        for atom, coefficient in self.terms:
            reach = coefficient * (atom.extent - 1)
            if reach.__class__ is not Size:
                low, high = low + min(reach, 0), high + max(reach, 0)
            elif coefficient < 0:
                low = low + reach
            else:
                high = high + reach
        return low, high

    @property
    def is_constant(self) -> bool:
        return not self.terms

    @cached_property
    def is_fixed(self) -> bool:
        """Whether no size that varies is part of it."""
        numbers = [self.constant, *(number for atom, c in self.terms for number in (c, atom.extent))]
        parts = [atom for atom, _ in self.terms if isinstance(atom, (Quotient, Remainder))]
        numbers += [part.divisor for part in parts]
        return not any(number.__class__ is Size for number in numbers) and all(part.dividend.is_fixed for part in parts)

    def coefficient(self, atom: Atom) -> Extent:
        """The factor of an atom among the affine terms; 0 where it does not appear."""
        return next((c for a, c in self.terms if a == atom), 0)

    @cached_property
    def symbols(self) -> frozenset[Symbol]:
        """Every loop variable it depends on, those inside quotients and remainders included."""
        return frozenset(atom for atom in self.atoms if isinstance(atom, Symbol))

    @cached_property
    def loaded(self) -> frozenset[int]:
        """The body values it depends on."""
        return frozenset(atom.value for atom in self.atoms if isinstance(atom, Loaded))

    @cached_property
    def atoms(self) -> tuple[Atom, ...]:
        """Its own atoms and, behind each quotient and remainder, those of its dividend."""
        found: list[Atom] = []
        for atom, _ in self.terms:
            found.append(atom)
            if isinstance(atom, (Quotient, Remainder)):
                found += atom.dividend.atoms
        return tuple(found)

    @cached_property
    def sizes(self) -> tuple[Size, ...]:
        """The sizes that vary which its text mentions, each once."""
        numbers = [self.constant, *(coefficient for _, coefficient in self.terms)]
        found = {number.expression: number for number in numbers if number.__class__ is Size}
        for atom, _ in self.terms:
            if isinstance(atom, (Quotient, Remainder)):
                if atom.divisor.__class__ is Size:
                    found[atom.divisor.expression] = atom.divisor
                found |= {size.expression: size for size in atom.dividend.sizes}
        return tuple(found.values())


ZERO = Index()


def factor_text(value: Extent) -> str:
    """A size as a factor: sums stand in parentheses."""
    text = str(value)
    return f"({text})" if value.__class__ is Size and (" " in text or text.startswith("-")) else text


def constant(value: Extent) -> Index:
    return Index((), value)


def variable(symbol: Atom) -> Index:
    """A single atom. A loop that runs once is the constant 0."""
    return ZERO if is_constant(symbol.extent, 1) else Index(((symbol, 1),))


def affine(coefficients: Mapping[Atom, Extent], offset: Extent = 0) -> Index:
    return _collect(coefficients.items(), offset)


def linear(indices: Iterable[Index], strides: Iterable[Extent], offset: Extent = 0) -> Index:
    """The flat position of a multi-dimensional index."""
    result = constant(offset)
    for index, stride in zip(indices, strides, strict=True):
        result = result + index * stride
    return result


def floor_divide(dividend: Index, divisor: Extent) -> Index:
    """floor(dividend / divisor), splitting off what divides exactly."""
    whole, rest = _split(dividend, divisor)
    period = _period(rest, divisor)
    if period is not None:
        return whole + period
    step = _common_step(rest, divisor)
    if step > 1:
        return whole + floor_divide(_in_steps(rest, step), divisor // step)
    return whole + _quotient(rest, divisor)


def modulo(dividend: Index, divisor: Extent) -> Index:
    """dividend mod divisor, dropping what divides exactly."""
    _, rest = _split(dividend, divisor)
    period = _period(rest, divisor)
    if period is not None:
        return rest + -period * divisor
    step = _common_step(rest, divisor)
    if step > 1:
        return modulo(_in_steps(rest, step), divisor // step) * step + rest.constant % step
    if len(rest.terms) == 1 and is_constant(rest.constant, 0):
        ((atom, factor),) = rest.terms
        if isinstance(atom, Remainder) and is_constant(factor, 1) and is_multiple(atom.divisor, divisor):
            return modulo(atom.dividend, divisor)
    return Index(((Remainder(_not_negative(rest, divisor)[0], divisor, divisor), 1),))


def _common_step(rest: Index, divisor: Extent) -> int:
    """What divides all that varies, and the divisor: `(2*i + 1) % 128` is `2 * (i % 64) + 1`. 1 where sizes vary."""
    if divisor.__class__ is Size or not rest.is_fixed:
        return 1
    return math.gcd(divisor, *(factor for _, factor in rest.terms))  # type: ignore[arg-type]


def _in_steps(rest: Index, step: int) -> Index:
    return Index(tuple((atom, factor // step) for atom, factor in rest.terms), rest.constant // step)


def delinearize(flat: Index, sizes: Iterable[Extent], strides: Iterable[Extent]) -> tuple[Index, ...]:
    """The index of each dimension at a flat position of a dense tensor; the inverse of `linear`.

    Dimensions of size 1 have index 0 whatever their stride. The tensor must not overlap itself.
    """
    sizes, strides = tuple(sizes), tuple(strides)
    varying = next((extent for extent in (*sizes, *strides) if extent.__class__ is Size), None)
    if varying is None:
        return (_delinearized if flat.is_fixed else _delinearize)(flat, sizes, strides)
    answers = varying.scope.log.answers
    key = flat, *map(expression_of, sizes), *map(expression_of, strides)
    if key not in answers:
        answers[key] = _delinearize(flat, sizes, strides)
    return answers[key]


def _delinearize(flat: Index, sizes: tuple[Extent, ...], strides: tuple[Extent, ...]) -> tuple[Index, ...]:
    indices = [ZERO] * len(sizes)
    rest = flat
    for dimension in _by_stride(sizes, strides):
        stride = strides[dimension]
        indices[dimension] = floor_divide(rest, stride)
        rest = modulo(rest, stride)
    return tuple(indices)


_delinearized = lru_cache(4096)(_delinearize)
"""Layers ask the same again and again. What is relied on to order sizes that vary is noted: of those the answers are the log's."""


def _by_stride(sizes: tuple[Extent, ...], strides: tuple[Extent, ...]) -> list[int]:
    """The dimensions that count, the largest stride first. Where expressions do not tell, sizes are compared, which is relied on."""
    dimensions = [d for d in range(len(sizes)) if not is_constant(sizes[d], 1)]
    order = sorted(dimensions, key=lambda d: order_of(strides[d]))
    if all(known(">=", strides[a], strides[b]) for a, b in zip(order, order[1:], strict=False)):
        return order

    def outermost_first(a: int, b: int) -> int:
        """One lies outside another where its steps span that one. Strides that are equal now are of a dimension of one element now."""
        for outer, inner, answer in ((a, b, -1), (b, a, 1)):
            if known(">=", strides[outer], strides[inner] * sizes[inner]):
                return answer
        if strides[a] != strides[b]:
            return -1 if strides[a] > strides[b] else 1
        return -1 if sizes[a] >= sizes[b] else 1

    return sorted(dimensions, key=cmp_to_key(outermost_first))


class Substitution:
    """Each loop variable or loaded value replaced (None keeps it), and the whole simplified again.

    The loads and stores of a body have few different places: each is replaced once.
    """

    def __init__(self, replace: Callable[[Atom], Index | None]) -> None:
        self._replace = replace
        self._changed: dict[Index, Index | None] = {}

    def __call__(self, index: Index) -> Index:
        return self._changed_of(index) or index

    def _changed_of(self, index: Index) -> Index | None:
        """None where nothing of it is replaced."""
        if index not in self._changed:
            self._changed[index] = self._substituted(index)
        return self._changed[index]

    def _substituted(self, index: Index) -> Index | None:
        terms: list[tuple[Atom, Extent]] = []
        constant, changed = index.constant, False
        for atom, coefficient in index.terms:
            new = self._in_place_of(atom)
            if new is None:
                terms.append((atom, coefficient))
                continue
            changed = True
            terms.extend((other, factor * coefficient) for other, factor in new.terms)
            constant = constant + new.constant * coefficient
        return _collect(terms, constant) if changed else None

    def _in_place_of(self, atom: Atom) -> Index | None:
        if not isinstance(atom, (Quotient, Remainder)):
            return self._replace(atom)
        dividend = self._changed_of(atom.dividend)
        if dividend is None:
            return None
        return (floor_divide if isinstance(atom, Quotient) else modulo)(dividend, atom.divisor)


def substitute(index: Index, replace: Callable[[Atom], Index | None]) -> Index:
    return Substitution(replace)(index)


def renumbered(index: Index, number: Callable[[int], int]) -> Index:
    """The index in another body, where the values that it reads have other numbers."""
    return substitute(index, lambda atom: variable(Loaded(number(atom.value), atom.extent)) if isinstance(atom, Loaded) else None)


def _collect(terms: Iterable[tuple[Atom, Extent]], offset: Extent) -> Index:
    totals: dict[Atom, Extent] = {}
    for atom, coefficient in terms:
        if not is_constant(atom.extent, 1):
            totals[atom] = totals.get(atom, 0) + coefficient
    terms = [(atom, c) for atom, c in totals.items() if not is_constant(c, 0)]
    if len(terms) > 1:
        terms.sort(key=_term_order)
    return _recombine(Index(tuple(terms), offset))


def _term_order(term: tuple[Atom, Extent]) -> tuple[Any, str]:
    return order_of(term[1]), str(term[0])


def _recombine(index: Index) -> Index:
    """`d * (e // d) + e % d` is e."""
    for atom, coefficient in index.terms:
        if isinstance(atom, Remainder):
            partner = next(
                (
                    a
                    for a, c in index.terms
                    if isinstance(a, Quotient)
                    and same(a.divisor, atom.divisor)
                    and a.dividend == atom.dividend
                    and same(c, coefficient * atom.divisor)
                ),
                None,
            )
            if partner is not None:
                rest = tuple(t for t in index.terms if t[0] is not atom and t[0] is not partner)
                return _collect(
                    (*rest, *(atom.dividend * coefficient).terms), index.constant + atom.dividend.constant * coefficient
                )
    return index


def _split(index: Index, divisor: Extent) -> tuple[Index, Index]:
    """index = divisor * whole + rest, with every coefficient of rest, and its constant, in 0 <= c < divisor.

    A negative coefficient stays in rest where splitting would leave a larger rest than it removes. Of sizes that vary, what
    the divisor does not divide exactly stays in rest as it is.
    """
    whole, rest = [], []
    for atom, coefficient in index.terms:
        quotient, remainder = divided(coefficient, divisor)
        if remainder.__class__ is not Size and remainder and coefficient.__class__ is not Size and coefficient < 0:
            quotient, remainder = 0, coefficient
        whole.append((atom, quotient))
        rest.append((atom, remainder))
    quotient, remainder = divided(index.constant, divisor)
    split = _collect(whole, quotient), _collect(rest, remainder)
    return _keep_small_constant(index, split, divisor)


def _keep_small_constant(index: Index, split: tuple[Index, Index], divisor: Extent) -> tuple[Index, Index]:
    """Moves the constant back when that alone makes the rest fit into one period (flips: `n - 1 - i`)."""
    whole, rest = split
    shift = _period(rest, divisor)
    if shift:
        return whole + shift, rest + -shift * divisor
    return split


def _period(rest: Index, divisor: Extent) -> int | None:
    """floor(rest / divisor), where that is one number for all that the rest can be."""
    low, high = rest.bounds
    if low.__class__ is not Size and high.__class__ is not Size and divisor.__class__ is not Size:
        return low // divisor if low // divisor == high // divisor else None
    if known(">=", low, 0) and known("<", high, divisor):
        return 0
    return -1 if known("<", high, 0) and known(">=", low, -divisor) else None


def _quotient(dividend: Index, divisor: Extent) -> Index:
    if len(dividend.terms) == 1 and is_constant(dividend.constant, 0):
        ((atom, factor),) = dividend.terms
        if isinstance(atom, Quotient) and is_constant(factor, 1):
            return floor_divide(atom.dividend, atom.divisor * divisor)
    dividend, periods = _not_negative(dividend, divisor)
    extent = dividend.bounds[1] // divisor + 1
    return _collect([(Quotient(dividend, divisor, extent), 1)], -periods)


def _not_negative(dividend: Index, divisor: Extent) -> tuple[Index, Extent]:
    """The dividend moved up by whole periods until it is never negative: atoms start at 0, and C truncates."""
    low = dividend.bounds[0]
    periods = 0 if low >= 0 else -(low // divisor)
    return dividend + periods * divisor, periods
