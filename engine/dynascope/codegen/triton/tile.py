"""The tile one program works on: which loops of a group make up its axes, and how an index reads in it.

A group's loops are flattened into a few axes. Each axis with a block greater than one is a dimension of the tile; the
others are scalars. For rows r0: 64 and columns c0: 1000 with blocks 2 and 1024:

    r0 = tl.program_id(0) * 2 + tl.arange(0, 2)[:, None]
    c0 = tl.arange(0, 1024)[None, :]
    c0_in = c0 < 1000
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any

from dynascope.dataclass import dataclass
from dynascope.loops.index import Atom, Extent, Index, Loaded, Quotient, Remainder, Symbol
from dynascope.loops.numbers import number_name, size_text
from dynascope.sizes import (
    Operation,
    Polynomial,
    Size,
    blocks_of,
    is_constant,
    is_multiple,
    is_printed,
    known,
    product,
    same,
)

WIDE = 1 << 31
"""From here on, positions do not fit into int32."""


@dataclass(frozen=True, slots=True)
class Axis:
    """Loops flattened row-major into one; `block` positions of it (a power of two) in one program or step.

    `visited` is how many blocks all programs and steps together go through, where that is more than there are; `is_whole` where the blocks
    gone through are those that lie before the end."""

    name: str
    symbols: tuple[Symbol, ...]
    block: int
    visited: Extent = 0
    is_whole: bool = False

    @property
    def count(self) -> Extent:
        return product(symbol.extent for symbol in self.symbols)

    @property
    def blocks(self) -> Extent:
        return blocks_of(self.count, self.block)

    @property
    def is_masked(self) -> bool:
        """Whether some position may lie past the end."""
        if self.is_whole:
            return False
        if isinstance(self.count, Size):
            visits_no_more = is_constant(self.visited, 0) or same(self.visited * self.block, self.count)
            return not (visits_no_more and is_multiple(self.count, self.block))
        return max(self.visited, self.blocks) * self.block != self.count

    @property
    def mask(self) -> str:
        return f"{self.name}_in"


@dataclass(frozen=True, slots=True)
class Tile:
    """Axes in the order of the tile's dimensions. `wide` where positions need 64 bits."""

    axes: tuple[Axis, ...]
    wide: bool = False
    numbers: dict[str, str] = field(default_factory=dict)
    """The parameters of the numbers that vary with sizes, by the names of the numbers."""
    flat: frozenset[str] = frozenset()
    """The axes whose flat positions say where in memory something is, where they can."""

    def text(self, value: Extent) -> str:
        """A size over the kernel's parameters."""
        return size_text(value, lambda leaf: self.numbers[number_name(leaf)], "//", "*")

    def factor(self, value: Extent) -> str:
        """A size as an operand of `*`, `//` or `%`."""
        text = self.text(value)
        return f"({text})" if isinstance(value, Size) and not text.isidentifier() else text

    @property
    def dimensions(self) -> tuple[Axis, ...]:
        return tuple(axis for axis in self.axes if axis.block > 1)

    @property
    def shape(self) -> str:
        return f"[{', '.join(str(axis.block) for axis in self.dimensions)}]"

    def position(self, name: str) -> int:
        """The dimension of the axis of that name."""
        return [axis.name for axis in self.dimensions].index(name)

    def arange(self, axis: Axis) -> str:
        """The positions of an axis within its block, shaped to broadcast against the other dimensions."""
        vector = f"tl.arange(0, {axis.block})"
        if len(self.dimensions) == 1:
            return vector
        slices = ", ".join(":" if other is axis else "None" for other in self.dimensions)
        return f"{vector}[{slices}]"

    def axes_of(self, symbols: Iterable[Symbol]) -> frozenset[str]:
        """The names of the axes that these loops belong to."""
        wanted = set(symbols)
        return frozenset(axis.name for axis in self.axes if not wanted.isdisjoint(axis.symbols))

    def mask_of(self, axes: frozenset[str]) -> list[str]:
        """The masks that a value varying along `axes` needs."""
        return [axis.mask for axis in self.axes if axis.name in axes and axis.is_masked]


def place_axis(tile: Tile, axis: Axis, start: str) -> list[str]:
    """The lines that define an axis's positions, its mask and its loops, given the text of its first position."""
    positions = tile.arange(axis) if axis.block > 1 else ""
    if tile.wide and positions:
        positions += ".to(tl.int64)"
    total = " + ".join(part for part in (start, positions) if part and part != "0") or "0"
    looping = _looping(axis)
    single = len(looping) == 1
    flat = looping[0].name if single else axis.name
    lines = [f"{flat} = {total}"]
    if axis.is_masked:
        lines.append(f"{axis.mask} = {flat} < {tile.text(axis.count)}")
    return lines if single else lines + _unflatten(tile, axis)


def _looping(axis: Axis) -> list[Symbol]:
    return [symbol for symbol in axis.symbols if not is_constant(symbol.extent, 1)]


def _unflatten(tile: Tile, axis: Axis) -> list[str]:
    """The loops' positions from the flat one. Remainders are written as differences: of `lane % 6` Triton 3.6 concludes that
    a comparison of it gives the same for neighbouring lanes, and reads what a mask forbids."""
    lines, rest = [], axis.name
    looping = _looping(axis)
    for position, symbol in reversed(list(enumerate(looping[1:], 1))):
        quotient = looping[0].name if position == 1 else _flat_name(axis, position)
        # Past the end the outermost loop runs on; those positions are masked.
        lines.append(f"{quotient} = {rest} // {tile.factor(symbol.extent)}")
        lines.append(f"{symbol.name} = {rest} - {quotient} * {tile.factor(symbol.extent)}")
        rest = quotient
    return lines


def index_text(index: Index, values: Mapping[int, str], tile: Tile) -> str:
    """The index as an expression over the loops' names; `values` names the body values it depends on.

    What goes through memory as the loops of an axis do is said by its flat position, where most does: of that Triton sees that neighbours
    are neighbours, whatever the loops' sizes are.
    """
    parts, flat = [], dict(_flat_terms(index, tile))
    for atom, coefficient in index.terms:
        text = flat.get(atom) if isinstance(atom, Symbol) else None
        if text == "":
            continue
        text = text or _atom_text(atom, values, tile)
        parts.append(text if is_constant(coefficient, 1) else f"{tile.factor(coefficient)}*{text}")
    if not is_constant(index.constant, 0) or not parts:
        parts.append(tile.text(index.constant))
    return " + ".join(parts).replace("+ -", "- ")


def _flat_terms(index: Index, tile: Tile) -> Iterator[tuple[Symbol, str]]:
    """Of axes that are said so: the outermost of their loops that the index goes through in their order, each to the next without a hole.
    The innermost of them with the name of their flat position, the others with none."""
    for axis in tile.axes:
        looping = _looping(axis)
        count = _in_order(index, looping) if axis.name in tile.flat else 0
        if count > 1:
            yield from ((symbol, "") for symbol in looping[: count - 1])
            yield looping[count - 1], axis.name if count == len(looping) else _flat_name(axis, count)


def _in_order(index: Index, looping: Sequence[Symbol]) -> int:
    """How many loops, from the outermost on, an index goes through as memory without holes does."""
    steps = [index.coefficient(symbol) for symbol in looping]
    count = 1
    while count < len(looping) and same(steps[count - 1], steps[count] * looping[count].extent):
        count += 1
    return count if steps and not is_constant(steps[count - 1], 0) else 0


def flat_axes(accesses: Iterable[Index], axes: Iterable[Axis]) -> frozenset[str]:
    """The axes of several loops along which no fewer tensors lie as these go than lie otherwise: of the ones Triton then sees that they can
    be read and written in vectors, and it reads the others as it does these, element by element. What is the same along some of the loops
    comes from the cache either way. An axis of which a program has one place says where that is for all."""
    accesses, found = list(accesses), []
    for axis in axes:
        looping = _looping(axis)
        whole = [index for index in accesses if looping and all(symbol in index.symbols for symbol in looping)]
        lying = [index for index in whole if _in_order(index, looping) == len(looping) and is_constant(index.coefficient(looping[-1]), 1)]
        if len(looping) > 1 and (axis.block == 1 or 2 * len(lying) >= len(whole)):
            found.append(axis.name)
    return frozenset(found)


def _flat_name(axis: Axis, count: int) -> str:
    """The flat position of the first `count` loops of more."""
    return f"{axis.name}_{count}"


def _atom_text(atom: Atom, values: Mapping[int, str], tile: Tile) -> str:
    if isinstance(atom, Symbol):
        return atom.name
    if isinstance(atom, Loaded):
        return values[atom.value]
    if isinstance(atom, Quotient):
        return _floored(atom.dividend, atom.divisor, "//", values, tile)
    assert isinstance(atom, Remainder)
    return _floored(atom.dividend, atom.divisor, "%", values, tile)


def _floored(dividend: Index, divisor: Extent, operator: str, values: Mapping[int, str], tile: Tile) -> str:
    """Triton divides as C does. A dividend that may be negative is moved up by whole periods first."""
    low, _ = dividend.bounds
    periods = 0 if low >= 0 else -(low // divisor)
    moved = f"({index_text(dividend if low >= 0 else dividend + periods * divisor, values, tile)})"
    by = tile.factor(divisor)
    if operator == "%":  # as a difference, for the reason that `_unflatten` gives
        return f"({moved} - {moved} // {by} * {by})"
    return f"({moved} // {by})" if low >= 0 else f"({moved} // {by} - {tile.factor(periods)})"


def needs_wide(indices: Iterable[Index], axes: Iterable[Axis]) -> bool:
    """Whether some position, masked ones included, could leave int32. Of sizes that vary the answer is relied on."""
    indices, axes = list(indices), list(axes)
    ends = [end for index in indices for end in index.bounds]
    ends += [axis.count + axis.block if isinstance(axis.count, Size) else axis.blocks * axis.block for axis in axes]
    if any(abs(end) >= WIDE // 2 for end in ends if not isinstance(end, Size)):
        return True
    varying = [end for end in ends if isinstance(end, Size)]
    varying += [part for index in indices for part in _computed_with(index)]
    highest = [end for n, end in enumerate(varying) if not _is_surpassed(end, n, varying)]
    return any(end >= WIDE // 2 or end <= -WIDE // 2 for end in highest)


def _is_surpassed(end: Size, position: int, others: list[Size]) -> bool:
    """Whether another one is never less, and this one never negative: it needs no relation of its own."""
    if not known(">=", end, 0):
        return False
    return any(
        known("<=", end, other) and not (same(end, other) and n >= position)
        for n, other in enumerate(others)
        if n != position
    )


def _computed_with(index: Index) -> Iterator[Size]:
    """The numbers that the text of an index is made of, and what their quotients are taken of."""
    for part in (index.constant, *(c for _, c in index.terms)):
        if isinstance(part, Size):
            yield part
            yield from (part.scope.size(dividend) for dividend in _dividends(part.expression))
    for atom, _ in index.terms:
        if isinstance(atom, (Quotient, Remainder)):
            yield from _computed_with(atom.dividend)
            yield from (end for end in atom.dividend.bounds if isinstance(end, Size))


def _dividends(expression: Any) -> Iterator[Any]:
    atoms = (
        [atom for monomial, _ in expression.terms for atom, _ in monomial] if isinstance(expression, Polynomial) else ()
    )
    for atom in atoms:
        if isinstance(atom, Operation) and is_printed(atom):
            for argument in atom.arguments:
                if isinstance(argument, Polynomial):
                    yield argument
                    yield from _dividends(argument)
