"""Writing a body: scalar operations appended once each, equal ones shared, constants folded where that is exact.

    nest = NestBuilder(origin, sizes=(4, 8), reduced=frozenset({1}))
    x = nest.load(tensor, nest.indices)          # a Scalar
    s = nest.reduce("sum", x)
    nest.body                                    # (Load, Reduce)

`Scalar` is the handle that lowering rules compute with: it has Python's operators, and knows its dtype.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch

from dynascope.dataclass import dataclass
from dynascope.loops.dtypes import holds, short_name
from dynascope.loops.index import Extent, Index, Loaded, Symbol, linear, variable
from dynascope.loops.nodes import (
    Argument,
    Body,
    CheckIndex,
    Compute,
    Constant,
    IndexValue,
    Load,
    Loop,
    Operation,
    Origin,
    Reduce,
    ReduceKind,
    ScalarInput,
    Scan,
    ScanKind,
    Store,
    TensorView,
)
from dynascope.loops.numbers import number_name
from dynascope.loops.operations import ALSO_OF_BOOLS, OF_BOOLS, TABLE
from dynascope.loops.readers import Reader
from dynascope.sizes import Size, is_constant, is_relied_to_be, kind_of

_FIXED_RESULTS = {"bool": torch.bool, "single": torch.float32}


class Refused(Exception):
    """There is no loop form of what a rule writes; caught by `graph.lower`: the call stays an extern call."""


class BodyBuilder:
    """Appends operations; an operation equal to an earlier one (but for its origin) is that one."""

    def __init__(self, origin: Origin, numbers: Mapping[str, ScalarInput] | None = None) -> None:
        self.origin = origin
        self.numbers = numbers or {}
        """Buffers that are passed as numbers: their memory belongs to another device."""
        self.operations: list[Operation] = []
        self._numbers: dict[Any, int] = {}

    @property
    def body(self) -> Body:
        return tuple(self.operations)

    def append(self, operation: Operation) -> int:
        key = _identity(operation)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.operations)
            self.operations.append(operation)
        return number

    def scalar(self, operation: Operation) -> Scalar:
        return Scalar(self, self.append(operation), operation.dtype)

    def constant(self, value: bool | int | float, dtype: torch.dtype) -> Scalar:
        if isinstance(value, complex) or not holds(dtype, value):
            raise Refused(f"{value} as {short_name(dtype)}, which cannot hold it")
        return self.scalar(Constant(dtype, (), self.origin, _as_dtype(value, dtype)))

    def argument(self, name: str, kind: str) -> Scalar:
        return self.scalar(Argument(torch.int64 if kind == "int" else torch.float64, (), self.origin, name))

    def number(self, value: bool | int | float | Size, dtype: torch.dtype) -> Scalar:
        """A Python number as a value of a dtype: a constant, or what a varying size is at each call."""
        if not isinstance(value, Size):
            return self.constant(value, dtype)
        return self.size(value).cast(dtype)

    def size(self, value: Size) -> Scalar:
        """A varying number in its own type: int64, computed in the kernel, or float64, computed by Python beforehand."""
        if kind_of(value) is int:
            return self.scalar(IndexValue(torch.int64, (), self.origin, Index((), value)))
        return self.scalar(Argument(torch.float64, (), self.origin, number_name(value.expression), value))

    def index_value(self, index: Index) -> Scalar:
        if index.is_constant and not isinstance(index.constant, Size):
            return self.constant(index.constant, torch.int64)
        return self.scalar(IndexValue(torch.int64, tuple(sorted(index.loaded)), self.origin, index))

    def load_flat(self, buffer: str, dtype: torch.dtype, index: Index, guard: Scalar | None = None) -> Scalar:
        if buffer in self.numbers:
            raise Refused("a number of another device, read by its place")
        arguments = tuple(sorted(index.loaded))
        if guard is not None:
            arguments = (guard.number, *arguments)
        number = None if guard is None else guard.number
        return self.scalar(Load(dtype, arguments, self.origin, buffer, index, number))

    def load(self, tensor: TensorView, indices: tuple[Index, ...], guard: Scalar | None = None) -> Scalar:
        """The element at `indices`, broadcast: missing leading dimensions and dimensions of size 1 repeat."""
        number = self.numbers.get(tensor.buffer)
        if number is not None:
            return self.argument(number.name, number.kind).cast(tensor.dtype)
        own = indices[len(indices) - len(tensor.sizes) :]
        strides = [
            0 if is_relied_to_be(size, 1) else stride for size, stride in zip(tensor.sizes, tensor.strides, strict=True)
        ]
        return self.load_flat(tensor.buffer, tensor.dtype, linear(own, strides, tensor.offset), guard)

    def check_index(
        self, value: Scalar, extent: Extent, dimension: int, wraps: str = "negative", reader: Reader = "index"
    ) -> Index:
        """`value` as an index into a dimension: wrapped, and reported when it is out of range."""
        wide = value.cast(torch.int64)
        checked = self.scalar(CheckIndex(torch.int64, (wide.number,), self.origin, extent, dimension, wraps, reader))
        return self.computed_index(checked, extent)

    def computed_index(self, value: Scalar, extent: Extent) -> Index:
        """An int64 value that is in 0 <= value < extent as an index."""
        return Index(((Loaded(value.number, 2), 1),)) if is_constant(extent, 1) else variable(Loaded(value.number, extent))

    def compute(self, name: str, *arguments: Scalar) -> Scalar:
        """One elementwise operation. Arguments already have one common dtype (but for a `where`'s condition)."""
        if arguments[-1].dtype == torch.bool and name not in ALSO_OF_BOOLS:
            if name not in OF_BOOLS:
                raise Refused(f"{name} of truth values")
            name = OF_BOOLS[name]
        rule = TABLE[name]
        dtype = _FIXED_RESULTS.get(rule.result, arguments[-1].dtype)
        numbers = tuple(argument.number for argument in arguments)
        return self.scalar(Compute(dtype, numbers, self.origin, name))

    def cast(self, value: Scalar, dtype: torch.dtype) -> Scalar:
        if value.dtype == dtype:
            return value
        operation = self.operations[value.number]
        if isinstance(operation, Constant):
            return self.constant(_round_constant(operation.value, value.dtype, dtype), dtype)
        return self.scalar(Compute(dtype, (value.number,), self.origin, "cast"))

    def reduce(self, kind: ReduceKind, value: Scalar) -> Scalar:
        dtype = {"argmax": torch.int64, "argmin": torch.int64}.get(kind, value.dtype)
        return self.scalar(Reduce(dtype, (value.number,), self.origin, kind))

    def scan(self, kind: ScanKind, value: Scalar) -> Scalar:
        return self.scalar(Scan(value.dtype, (value.number,), self.origin, kind))


class NestBuilder(BodyBuilder):
    """A body with its loops. `sizes` is the iterated shape; `reduced` the dimensions that reductions run over."""

    def __init__(
        self,
        origin: Origin,
        sizes: tuple[Extent, ...],
        reduced: frozenset[int] = frozenset(),
        numbers: Mapping[str, ScalarInput] | None = None,
    ) -> None:
        super().__init__(origin, numbers)
        self.sizes = sizes
        letters = ["c" if d in reduced else "i" for d in range(len(sizes))]
        self.loops = tuple(Loop(Symbol(f"{letters[d]}{d}", size), d in reduced) for d, size in enumerate(sizes))
        self.indices = tuple(variable(loop.symbol) for loop in self.loops)

    def reduce(self, kind: ReduceKind, value: Scalar) -> Scalar:
        """A reduction of a single element is that element; a sum begins at zero, so that of -0 is 0."""
        if any(loop.reduced and not is_constant(loop.size, 1) for loop in self.loops):
            return super().reduce(kind, value)
        if kind == "sum" and value.dtype.is_floating_point:
            return value + 0.0
        return self.constant(0, torch.int64) if kind in ("argmax", "argmin") else value


@dataclass(frozen=True, slots=True)
class Scalar:
    """A value of a body under construction."""

    builder: BodyBuilder
    number: int
    dtype: torch.dtype

    def cast(self, dtype: torch.dtype) -> Scalar:
        return self.builder.cast(self, dtype)

    def like(self, value: Scalar | float | Size) -> Scalar:
        """A Python number as a value of this value's dtype; a Scalar stays."""
        return value if isinstance(value, Scalar) else self.builder.number(value, self.dtype)

    def apply(self, name: str, *others: Scalar | float) -> Scalar:
        return self.builder.compute(name, self, *(self.like(other) for other in others))

    def __add__(self, other: Scalar | float) -> Scalar:
        return self.apply("add", other)

    def __sub__(self, other: Scalar | float) -> Scalar:
        return self.apply("subtract", other)

    def __rsub__(self, other: Scalar | float) -> Scalar:
        return self.like(other) - self

    def __mul__(self, other: Scalar | float) -> Scalar:
        return self.apply("multiply", other)

    def __truediv__(self, other: Scalar | float) -> Scalar:
        return self.apply("divide", other)

    def __rtruediv__(self, other: Scalar | float) -> Scalar:
        return self.like(other) / self

    def __neg__(self) -> Scalar:
        return self.apply("negate")

    __radd__ = __add__
    __rmul__ = __mul__

    def less(self, other: Scalar | float) -> Scalar:
        return self.apply("less", other)

    def greater(self, other: Scalar | float) -> Scalar:
        return self.apply("greater", other)

    def equal(self, other: Scalar | float) -> Scalar:
        return self.apply("equal", other)

    def where(self, yes: Scalar, no: Scalar | float) -> Scalar:
        """`yes` where this (a bool) holds, else `no`."""
        return self.builder.compute("where", self, yes, yes.like(no))


def instantiate(operation: Operation, numbers: Callable[[int], int], index: Callable[[Index], Index]) -> Operation:
    """The operation in another body: arguments renumbered, its index expression rewritten."""
    arguments = tuple(numbers(a) for a in operation.arguments)
    match operation:
        case Load():
            guard = None if operation.guard is None else numbers(operation.guard)
            new = index(operation.index)
            loaded = tuple(sorted(new.loaded))
            return replace(operation, arguments=loaded if guard is None else (guard, *loaded), index=new, guard=guard)
        case IndexValue():
            new = index(operation.index)
            return replace(operation, arguments=tuple(sorted(new.loaded)), index=new)
        case Store():
            new = index(operation.index)
            return replace(operation, arguments=(*sorted(new.loaded), arguments[-1]), index=new)
        case _:
            return replace(operation, arguments=arguments)


def _identity(operation: Operation) -> Any:
    """Everything but the origin; constants by type and bits, so that 1, 1.0, True, 0.0 and -0.0 stay apart."""
    kind = type(operation)
    head = (kind, operation.dtype, operation.arguments)
    match operation:
        case Load():
            return (*head, operation.buffer, operation.index, operation.guard)
        case Constant():
            return (*head, repr(operation.value))
        case Argument() | Compute():
            return (*head, operation.name)
        case IndexValue():
            return (*head, operation.index)
        case CheckIndex():
            return (*head, operation.extent, operation.dimension, operation.wraps, operation.reader)
        case Reduce() | Scan():
            return (*head, operation.kind)
    return (*head, id(operation))


def _as_dtype(value: Any, dtype: torch.dtype) -> bool | int | float:
    if dtype == torch.bool:
        return bool(value)
    if dtype.is_floating_point:
        return float(value)
    return int(value)


def _round_constant(value: Any, source: torch.dtype, dtype: torch.dtype) -> bool | int | float:
    """A constant through the target type and back, as the cast would do at run time."""
    if isinstance(value, float) and not math.isfinite(value):
        return value if dtype.is_floating_point else torch.tensor(value, dtype=source).to(dtype).item()
    if dtype in (torch.float64, torch.bool):
        return _as_dtype(value, dtype)
    return torch.tensor(value, dtype=source).to(dtype).item()
