"""The tile one program works on: which loops of a group make up its axes, and how an index reads in it.

A group's loops are flattened into a few axes. Each axis with a block greater than one is a dimension of the tile; the
others are scalars. For rows r0: 64 and columns c0: 1000 with blocks 2 and 1024:

    r0 = tl.program_id(0) * 2 + tl.arange(0, 2)[:, None]
    c0 = tl.arange(0, 1024)[None, :]
    c0_in = c0 < 1000
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from dynascope.loops.index import Atom, Index, Loaded, Quotient, Remainder, Symbol

WIDE = 1 << 31
"""From here on, positions do not fit into int32."""


@dataclass(frozen=True, slots=True)
class Axis:
    """Loops flattened row-major into one; `block` positions of it (a power of two) in one program or step.

    `visited` is how many blocks all programs and steps together go through, where that is more than there are."""

    name: str
    symbols: tuple[Symbol, ...]
    block: int
    visited: int = 0

    @property
    def count(self) -> int:
        total = 1
        for symbol in self.symbols:
            total *= symbol.extent
        return total

    @property
    def blocks(self) -> int:
        return -(-self.count // self.block)

    @property
    def is_masked(self) -> bool:
        return max(self.visited, self.blocks) * self.block != self.count

    @property
    def mask(self) -> str:
        return f"{self.name}_in"


@dataclass(frozen=True, slots=True)
class Tile:
    """Axes in the order of the tile's dimensions. `wide` where positions need 64 bits."""

    axes: tuple[Axis, ...]
    wide: bool = False

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
    single = len([s for s in axis.symbols if s.extent != 1]) == 1
    flat = next(s.name for s in axis.symbols if s.extent != 1) if single else axis.name
    lines = [f"{flat} = {total}"]
    if axis.is_masked:
        lines.append(f"{axis.mask} = {flat} < {axis.count}")
    return lines if single else lines + _unflatten(axis)


def _unflatten(axis: Axis) -> list[str]:
    lines, inner = [], 1
    looping = [symbol for symbol in axis.symbols if symbol.extent != 1]
    for symbol in reversed(looping):
        quotient = axis.name if inner == 1 else f"{axis.name} // {inner}"
        outermost = symbol is looping[0]
        # Past the end the outermost loop runs on; those positions are masked.
        lines.append(f"{symbol.name} = {quotient}" + ("" if outermost else f" % {symbol.extent}"))
        inner *= symbol.extent
    return lines[::-1]


def index_text(index: Index, values: Mapping[int, str]) -> str:
    """The index as an expression over the loops' names; `values` names the body values it depends on."""
    parts = []
    for atom, coefficient in index.terms:
        text = _atom_text(atom, values)
        parts.append(text if coefficient == 1 else f"{coefficient}*{text}")
    if index.constant or not parts:
        parts.append(str(index.constant))
    return " + ".join(parts).replace("+ -", "- ")


def _atom_text(atom: Atom, values: Mapping[int, str]) -> str:
    if isinstance(atom, Symbol):
        return atom.name
    if isinstance(atom, Loaded):
        return values[atom.value]
    if isinstance(atom, Quotient):
        return _floored(atom.dividend, atom.divisor, "//", values)
    assert isinstance(atom, Remainder)
    return _floored(atom.dividend, atom.divisor, "%", values)


def _floored(dividend: Index, divisor: int, operator: str, values: Mapping[int, str]) -> str:
    """Triton divides as C does. A dividend that may be negative is moved up by whole periods first."""
    low, _ = dividend.bounds
    if low >= 0:
        return f"(({index_text(dividend, values)}) {operator} {divisor})"
    periods = -(low // divisor)
    moved = f"(({index_text(dividend + periods * divisor, values)}) {operator} {divisor})"
    return f"({moved} - {periods})" if operator == "//" else moved


def needs_wide(indices: Iterable[Index], axes: Iterable[Axis]) -> bool:
    """Whether some position, masked ones included, could leave int32."""
    reach = max((max(abs(bound) for bound in index.bounds) for index in indices), default=0)
    return reach >= WIDE // 2 or any(axis.blocks * axis.block >= WIDE // 2 for axis in axes)
