"""The values of a group's body, one Triton assignment each, within a tile.

    printer = BodyPrinter(group, tile, writer, names)
    printer.emit(range(len(group.body)))

Values are named after what they are and their number in the body (`x0`, `exp3`), so that the kernel reads beside the
loops text. The printer knows along which axes each value varies, which gives every load and store its mask.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Iterable, Sequence

import torch

from dynascope.codegen.triton.dtypes import TEXT, literal, typed_constant
from dynascope.codegen.triton.helpers import HELPERS
from dynascope.codegen.triton.narrow import COMPARISONS, narrow_positions
from dynascope.codegen.triton.operations import Precision, exact_reciprocal, helpers_in, render, render_cast
from dynascope.codegen.triton.otherwise import otherwise, outside
from dynascope.codegen.triton.places import in_steps
from dynascope.codegen.triton.tile import Tile, index_text
from dynascope.codegen.triton.writer import KernelWriter
from dynascope.loops.index import Index, variable
from dynascope.loops.nodes import (
    Argument,
    Body,
    CheckIndex,
    Compute,
    Constant,
    IndexValue,
    Load,
    Operation,
    Reduce,
    Store,
)
from dynascope.sizes import Size, is_constant

_WEAK = frozenset(
    [
        "add",
        "subtract",
        "multiply",
        "less",
        "less_equal",
        "greater",
        "greater_equal",
        "equal",
        "not_equal",
        "maximum",
        "minimum",
        "and",
        "or",
        "xor",
    ]
)
"""Operations that take a bare number beside a tensor, which then has the tensor's dtype."""


_RESERVED = (
    "tl",
    "triton",
    "libdevice",
    "workspace",
    "program",
    "part",
    "first",
    "start",
    "step",
    "tickets",
    "finished",
    "number",
    "met",
)

_DERIVED = (
    *("_lanes", "_places", "_parts", "_part", "_place", "_value", "_in", "_element"),
    *("_rise", "_share", "_steps", "_counts", "_apart", "_size", "_carry", "_base"),
)
"""Endings of names that patterns make from others: nothing else may have them."""


class Names:
    """One Python identifier for each thing named: buffers first, then what is derived from them."""

    def __init__(self) -> None:
        self._taken = {*_RESERVED, *HELPERS, *keyword.kwlist}

    def take(self, wanted: str) -> str:
        base = re.sub(r"\W", "_", wanted) or "value"
        if base[0].isdigit():
            base = f"v{base}"
        if base.endswith(_DERIVED):
            base += "_"
        name, number = base, 2
        while name in self._taken:
            name, number = f"{base}_{number}", number + 1
        self._taken.add(name)
        return name


class BodyPrinter:
    """Writes operations of one body. `values` maps a number to its text, `axes` to the axes it varies along."""

    def __init__(
        self,
        body: Body,
        tile: Tile,
        writer: KernelWriter,
        names: Names,
        buffers: dict[str, str],
        dtypes: dict[str, torch.dtype],
        precisions: Sequence[Precision],
        product: str | None = None,
    ):
        self.body = body
        self.tile = tile
        self.writer = writer
        self.helpers: set[str] = set()
        self.asserts = False
        self.first: str | None = None
        """The text of the tile's first position, where the tile is one flat run of them."""
        self.product, self.multiplied = product, ""
        """The buffer whose elements the kernel computes itself, and the name of the tile of them, which are f32."""
        self.values: dict[int, str] = {}
        self.axes: list[frozenset[str]] = []
        self._buffers = buffers
        self._dtypes = dtypes
        self._precisions = precisions
        self._names = [names.take(_wish(operation, number, buffers)) for number, operation in enumerate(body)]
        for operation in body:
            self.axes.append(self._axes(operation))
        self._narrow = frozenset() if tile.wide else narrow_positions(body)
        is_any_length = any(isinstance(axis.count, Size) for axis in tile.axes if axis.name == "column")
        self._otherwise = otherwise(body, dtypes, is_any_length)

    def name(self, number: int) -> str:
        return self._names[number]

    def emit(self, numbers: Iterable[int]) -> None:
        """Write the operations of these numbers, in order. Reductions are not among them."""
        for number in numbers:
            operation = self.body[number]
            self._EMITTERS[type(operation)](self, number, operation)

    def assign(self, number: int, expression: str, name: str | None = None) -> None:
        """`name = expression`; from here on, the value goes by that name."""
        name = name or self._names[number]
        self.helpers |= helpers_in(expression)
        self.writer.write(f"{name} = {expression}", self.body[number].origin)
        self.values[number] = name

    def spread(self, number: int, axes: frozenset[str]) -> str:
        """The value as a block that has every dimension of the tile, where it lacks one of `axes`."""
        missing = {axis.name for axis in self.tile.dimensions if axis.name in axes} - self.axes[number]
        text = self.values[number]
        if not missing:
            return text
        if isinstance(self.body[number], Constant):
            return f"tl.full({self.tile.shape}, {text}, {TEXT[self.body[number].dtype]})"
        return f"tl.broadcast_to({text}, {self.tile.shape})"

    def outside(self, number: int) -> str | None:
        """What the value is in columns past the end, where that is known."""
        found = outside(self.body, number, self._otherwise.constants, lambda load: "column" in self.axes[load])
        return None if found is None else literal(found or 0)

    def masks(self, axes: frozenset[str]) -> list[str]:
        return self.tile.mask_of(axes)

    # ---- one rule for each kind of operation ----

    def _load(self, number: int, load: Load) -> None:
        if load.buffer == self.product:
            self.assign(number, render_cast(self.multiplied, torch.float32, load.dtype))
            return
        pointed = self._index_axes(load.index)
        masks = self.masks(pointed)
        if load.guard is not None:
            masks.append(self.values[load.guard])
        place = self._pointer(load.buffer, load.index) + self._widened(self.axes[number] - pointed)
        constant = self._otherwise.constants.get(number)
        masked = f", mask={_all(masks)}, other={0 if constant is None else _number(constant)}" if masks else ""
        stored = self._dtypes[load.buffer]
        self.assign(number, render_cast(f"tl.load({place}{masked})", stored, load.dtype))

    def _store(self, number: int, store: Store) -> None:
        axes = self.axes[number]
        place = self.at(store)
        pointed = self._index_axes(store.index)
        every = axes if store.mode == "set" else frozenset(axis.name for axis in self.tile.axes)
        place += self._widened(every - pointed)
        value = self._stored(store)
        masks = self.masks(every)
        masked = f", mask={_all(masks)}" if masks else ""
        if store.mode == "add":
            self.writer.write(f'tl.atomic_add({place}, {value}{masked}, sem="relaxed")', store.origin)
        else:
            self.writer.write(f"tl.store({place}, {value}{masked})", store.origin)

    def at(self, store: Store) -> str:
        """The pointer that a store's index names."""
        return self._pointer(store.buffer, store.index)

    def _widened(self, axes: frozenset[str]) -> str:
        """What makes a pointer vary along `axes` too, as a mask or a value does. No other dimension is widened: what is read
        has the dimensions that `axes` says."""
        if not any(axis.name in axes for axis in self.tile.dimensions):
            return ""
        blocks = (str(axis.block if axis.name in axes else 1) for axis in self.tile.dimensions)
        return f" + tl.zeros([{', '.join(blocks)}], tl.int32)"

    def _stored(self, store: Store) -> str:
        operation = self.body[store.value]
        if isinstance(operation, Constant):
            return typed_constant(operation.value, operation.dtype)
        return render_cast(self.values[store.value], operation.dtype, self._dtypes[store.buffer])

    def _constant(self, number: int, constant: Constant) -> None:
        self.values[number] = _number(constant)

    def _argument(self, number: int, argument: Argument) -> None:
        self.values[number] = self._buffers[argument.name]

    def _index_value(self, number: int, operation: IndexValue) -> None:
        if operation.index.is_constant and not isinstance(operation.index.constant, Size):
            self.assign(number, typed_constant(operation.index.constant, operation.dtype))
        elif number in self._narrow:
            self.assign(number, self._at(operation.index))
        else:
            self.assign(number, f"({self._at(operation.index)}).to({TEXT[operation.dtype]})")

    def _check_index(self, number: int, check: CheckIndex) -> None:
        (source,) = check.arguments
        given = self._typed(source)
        name = self._names[number]
        extent = self.tile.factor(check.extent)
        wrapped = f"tl.where({given} < 0, {given} + {extent}, {given})" if check.wraps == "negative" else given
        self.writer.write(f"{name} = {wrapped}", check.origin)
        valid = f"({name} >= 0) & ({name} < {extent})"
        message = f"an index is out of range for a dimension of size {check.extent}"
        masks = self.masks(self.axes[number])
        masked = f", mask={_all(masks)}" if masks else ""  # an index that is computed lies outside in lanes past the end
        self.writer.write(f'tl.device_assert({valid}, "{message}"{masked})', check.origin)
        # The assertion stops the kernel some time later; until then nothing outside is read or written.
        self.writer.write(f"{name} = tl.where({valid}, {name}, 0)", check.origin)
        self.values[number] = name
        self.asserts = True

    def _compute(self, number: int, operation: Compute) -> None:
        if number in self._otherwise.chosen:
            self.values[number] = self.values[self._otherwise.chosen[number]]
            return
        kinds = [self.body[argument].dtype for argument in operation.arguments]
        if operation.name == "cast":
            (source,) = operation.arguments
            dtype = torch.int32 if number in self._narrow else operation.dtype
            self.assign(number, render_cast(self._typed(source), kinds[0], dtype))
            return
        if operation.name == "random" and self._is_run(operation):
            seed, offset = (self._typed(argument) for argument in operation.arguments[:2])
            block = self.tile.axes[0].block
            self.assign(number, f"random_run({seed}, {offset}, {self.first}, {block})")
            return
        dtype = operation.dtype if operation.name == "where" else kinds[0]
        name, operands = operation.name, self._operands(operation)
        divisor = self.body[operation.arguments[-1]]
        factor = exact_reciprocal(divisor.value) if name == "divide" and isinstance(divisor, Constant) else None
        if factor is not None:
            name, operands = "multiply", [operands[0], repr(factor)]
        self.assign(number, render(name, dtype, operands, self._precisions[number]))

    def _is_run(self, operation: Compute) -> bool:
        """Whether the tile's elements are neighbours in the stream of random numbers."""
        place = self.body[operation.arguments[2]]
        if self.first is None or not isinstance(place, IndexValue) or self.tile.axes[0].block % 4:
            return False
        symbols = [symbol for symbol in self.tile.axes[0].symbols if not is_constant(symbol.extent, 1)]
        return len(symbols) == 1 and place.index == variable(symbols[0])

    def _operands(self, operation: Compute) -> list[str]:
        """Numbers stand bare beside a tensor of their dtype, and typed elsewhere."""
        constants = [isinstance(self.body[argument], Constant) for argument in operation.arguments]
        bare = operation.name in _WEAK and sum(constants) == 1 and operation.dtype != torch.float64
        narrow = operation.name in COMPARISONS and not self._narrow.isdisjoint(operation.arguments)
        return [self._narrowed(a) if narrow else self.values[a] if bare else self._typed(a) for a in operation.arguments]

    def _narrowed(self, number: int) -> str:
        """What a narrow position is compared with, as 32 bits: further off than any position stays further off."""
        if number in self._narrow or isinstance(self.body[number], Constant):
            return self.values[number]
        self.helpers.add("narrow")
        return f"narrow({self.values[number]})"

    def _typed(self, number: int) -> str:
        operation = self.body[number]
        if isinstance(operation, Constant):
            return typed_constant(operation.value, operation.dtype)
        return self.values[number]

    def _refuse(self, number: int, operation: Operation) -> None:
        raise AssertionError(f"value {number}: {operation} is emitted by its group's pattern")

    _EMITTERS: dict[type, Callable[..., None]] = {
        Load: _load,
        Store: _store,
        Constant: _constant,
        Argument: _argument,
        IndexValue: _index_value,
        CheckIndex: _check_index,
        Compute: _compute,
        Reduce: _refuse,
    }

    # ---- axes ----

    def _axes(self, operation: Operation) -> frozenset[str]:
        axes = frozenset().union(*(self.axes[argument] for argument in operation.arguments))
        if isinstance(operation, Reduce):
            return axes - {"column"}
        if isinstance(operation, (Load, Store, IndexValue)):
            return axes | self._index_axes(operation.index)
        return axes

    def _index_axes(self, index: Index) -> frozenset[str]:
        axes = self.tile.axes_of(index.symbols)
        return axes.union(*(self.axes[value] for value in index.loaded))

    def _pointer(self, buffer: str, index: Index) -> str:
        positions = {axis.name: at for at, axis in enumerate(self.tile.dimensions)}
        parts, number = in_steps(index, lambda atom: [positions[a] for a in self._index_axes(variable(atom)) if a in positions])
        steps = [self._at(part) for part in parts] + ([str(number)] if number or not parts else [])
        return " + ".join([self._buffers[buffer], *steps]).replace("+ -", "- ")

    def _at(self, index: Index) -> str:
        text = index_text(index, self.values, self.tile)
        parts = len(index.terms) + (not is_constant(index.constant, 0))
        is_sum = parts > 1 and not text.isidentifier()  # of several loops a flat position may be all that is left
        return f"({text})" if is_sum or (isinstance(index.constant, Size) and not index.terms) else text


def _all(masks: list[str]) -> str:
    unique = list(dict.fromkeys(masks))
    return unique[0] if len(unique) == 1 else " & ".join(f"({mask})" if " " in mask else mask for mask in unique)


def _number(constant: Constant) -> str:
    if constant.dtype.is_floating_point:
        return literal(float(constant.value))
    return literal(int(constant.value)) if constant.dtype != torch.bool else literal(bool(constant.value))


def _wish(operation: Operation, number: int, buffers: dict[str, str]) -> str:
    if isinstance(operation, Load):
        return f"{buffers.get(operation.buffer, operation.buffer)}_{number}"
    word = {IndexValue: "index", CheckIndex: "checked"}.get(type(operation))
    if word is None:
        word = operation.kind if isinstance(operation, Reduce) else getattr(operation, "name", "value")
    return f"{word}{number}"
