"""What a kernel computes, up to names: groups of one identity are one kernel, called with other buffers.

    identity(group, buffers)  ->  Identity(key, buffers=("x", "w", "out"), scalars=("eps",))

Two groups whose keys are equal differ in what their buffers, numbers and loops are called and in the lines that they came from,
and in nothing else: the text of one, with its arguments in the order of the other's, is the text of the other. Sizes that vary
are compared as expressions; their values are not asked.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

from dynascope.dataclass import dataclass
from dynascope.loops.index import Extent, Index, Loaded, Quotient, Remainder, Symbol
from dynascope.loops.nodes import (
    Argument,
    Buffer,
    CheckIndex,
    Compute,
    Constant,
    IndexValue,
    Load,
    Operation,
    Reduce,
    Scan,
    Store,
)
from dynascope.schedule.groups import FusionGroup, MatrixProduct
from dynascope.sizes import Size


@dataclass(frozen=True, slots=True)
class Identity:
    """`buffers` and `scalars` in the order in which the body meets them: of two groups of one key, the same ones stand at the
    same place."""

    key: Hashable
    buffers: tuple[str, ...]
    scalars: tuple[str, ...]


def identity(group: FusionGroup, buffers: Mapping[str, Buffer]) -> Identity:
    return _Reading(group, buffers).identity()


class _Reading:
    """Numbers in place of names, given out as they are met."""

    def __init__(self, group: FusionGroup, buffers: Mapping[str, Buffer]) -> None:
        self._group, self._buffers = group, buffers
        self._numbers: dict[str, int] = {}
        self._scalars: dict[str, int] = {}
        self._symbols = {symbol: at for at, symbol in enumerate((*group.rows, *group.columns))}

    def identity(self) -> Identity:
        group = self._group
        product = None if group.product is None else self._product(group.product)
        body = tuple(map(self._operation, group.body))
        order = {name: at for at, name in enumerate(group.scalars)}
        return Identity(
            (
                group.device,
                tuple(_plain(symbol.extent) for symbol in group.rows),
                tuple(_plain(symbol.extent) for symbol in group.columns),
                body,
                tuple(self._numbers[name] for name in group.reads),
                tuple(self._numbers[name] for name in group.writes),
                frozenset(self._numbers[name] for name in group.in_place),
                tuple((order[name], expression) for name, expression in group.numbers),
                tuple(self._scalars.get(name) for name in group.scalars),
                group.checks_indices,
                product,
                tuple(map(self._memory, self._numbers)),
            ),
            tuple(self._numbers),
            group.scalars,
        )

    def _product(self, product: MatrixProduct) -> Hashable:
        views = tuple((self._buffer(v.buffer), v.sizes, v.strides, v.offset) for v in product.operands)
        return self._buffer(product.name), views, product.split, product.tiling

    def _memory(self, name: str) -> Hashable:
        buffer = self._buffers[name]
        return buffer.dtype, tuple(map(_plain, buffer.sizes)), tuple(map(_plain, buffer.strides)), buffer.is_aligned

    def _operation(self, operation: Operation) -> Hashable:
        return operation.__class__, operation.dtype, operation.arguments, *self._details(operation)

    def _details(self, operation: Operation) -> tuple[Hashable, ...]:
        match operation:
            case Load():
                return self._buffer(operation.buffer), self._index(operation.index), operation.guard
            case Store():
                return self._buffer(operation.buffer), self._index(operation.index), operation.mode
            case Compute():
                return (operation.name,)
            case Reduce() | Scan():
                return (operation.kind,)
            case Constant():
                # 0.0 equals -0.0 and False, NaN not itself; their words are what they are.
                return (repr(operation.value),)
            case Argument():
                at = self._scalars.setdefault(operation.name, len(self._scalars))
                return at, None if operation.size is None else _plain(operation.size)
            case IndexValue():
                return (self._index(operation.index),)
            case CheckIndex():
                return _plain(operation.extent), operation.dimension, operation.wraps, operation.reader
        raise TypeError(type(operation).__name__)

    def _buffer(self, name: str) -> int:
        return self._numbers.setdefault(name, len(self._numbers))

    def _index(self, index: Index) -> Hashable:
        return tuple((self._atom(atom), _plain(factor)) for atom, factor in index.terms), _plain(index.constant)

    def _atom(self, atom: Any) -> Hashable:
        match atom:
            case Symbol():
                return "loop", self._symbols[atom]
            case Loaded():
                return "loaded", atom.value, _plain(atom.extent)
            case Quotient() | Remainder():
                kind = "quotient" if isinstance(atom, Quotient) else "remainder"
                return kind, self._index(atom.dividend), _plain(atom.divisor)
        raise TypeError(type(atom).__name__)


def _plain(extent: Extent) -> Hashable:
    """To be compared without asking what a size is now."""
    return ("size", extent.expression) if extent.__class__ is Size else extent
