"""Fusion groups: what a code generator turns into one kernel each.

A group is one loop nest with one SSA body (the vocabulary of `loops.nodes`), in which every member node was substituted
into one iteration space. For `y = softmax(x, -1)`, x f32[64, 1000]:

    softmax_0 = group(r0: 64 | c0: 1000)
        %0 = load x[1000*r0 + c0]       f32        pass 0, element
        %1 = reduce max %0              f32        after pass 0, row
        %2 = subtract %0, %1            f32        pass 1, element
        %3 = exp %2                     f32        pass 1, element
        %4 = reduce sum %3              f32        after pass 1, row
        %5 = divide %3, %4              f32        pass 2, element
        store y[1000*r0 + c0] = %5                 pass 2, element

`passes.arrange(body, columns)` says level and pass of each value. What a generator may rely on:
- `rows` are independent of one another: any order, any parallel split. Row-major order of the iterated tensor.
- Reductions run over all `columns`. With no columns the group is pointwise and everything is at row level.
- A group never loads from a buffer that it stores to, except through the very same index (in place) in `in_place`, or where it
  never stores.
- Loops were merged and split so that indices are affine wherever possible; Quotient and Remainder atoms remain only
  where they must.
- Body values are in an order that respects arguments; stores come as soon as their value exists.
"""

from __future__ import annotations

from typing import Any

import torch

from dynascope.dataclass import dataclass
from dynascope.loops.index import Extent, Symbol
from dynascope.loops.nodes import Body, Buffer, ExternCall, LoopProgram, Origin, ScatterNode, TensorView
from dynascope.report.reason import Reason
from dynascope.sizes import Expression, product


@dataclass(frozen=True, slots=True)
class Fused:
    """Producer and consumer share a kernel."""

    producer: str
    consumer: str


@dataclass(frozen=True, slots=True)
class NotFused:
    """Producer and consumer (names of ATen nodes) are in different kernels, for `reason`."""

    producer: str
    consumer: str
    reason: Reason
    origin: Origin
    """The consumer's."""


Border = Fused | NotFused


@dataclass(frozen=True, slots=True)
class Tiling:
    """How a kernel multiplies matrices: a block of the result in each program, `inner` elements of the sum at a time."""

    rows: int
    columns: int
    inner: int
    warps: int
    stages: int


@dataclass(frozen=True, slots=True)
class MatrixProduct:
    """`first @ second + added`, whose elements the body of a group loads from `name`, a buffer that does not exist: where the kernel
    of the group computes them itself, for a GPU. The group's `rows` up to `split` go through the rows of the product."""

    name: str
    first: TensorView
    second: TensorView
    added: TensorView | None
    split: int
    tiling: Tiling

    @property
    def operands(self) -> tuple[TensorView, ...]:
        return (self.first, self.second) if self.added is None else (self.first, self.second, self.added)

    @property
    def buffers(self) -> tuple[str, ...]:
        """Those of the operands, once."""
        return tuple(dict.fromkeys(view.buffer for view in self.operands))


@dataclass(frozen=True, slots=True)
class FusionGroup:
    """One kernel to be. `origins` are the ATen nodes computed in it, in program order."""

    name: str
    device: torch.device
    rows: tuple[Symbol, ...]
    columns: tuple[Symbol, ...]
    body: Body
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    scalars: tuple[str, ...]
    origins: tuple[Origin, ...]
    in_place: frozenset[str] = frozenset()
    """Buffers both read and written: each element is read only by the iteration that writes it, before it writes."""
    checks_indices: bool = False
    """Some index of the body is checked: the kernel must be able to report an out-of-range one."""

    numbers: tuple[tuple[str, Expression], ...] = ()
    """Those of `scalars` that vary with sizes: roots under their names, and what only Python computes from them."""
    plain: tuple[Body, tuple[Symbol, ...]] | None = None
    """Of a group without columns: its body and its loops as they were before these were split, ordered and merged. Groups that
    one body was cut into share it."""
    product: MatrixProduct | None = None
    """What is multiplied in the kernel itself; `reads` has its operands."""
    bases: tuple[tuple[str, str], ...] = ()
    """Of what is written in part: (result, what it begins as). None any more once that is settled (`shared_memory.py`)."""
    parts: frozenset[str] = frozenset()
    """Buffers that are there already, and of which a part is written over."""

    @property
    def row_count(self) -> Extent:
        return product(symbol.extent for symbol in self.rows)

    @property
    def column_count(self) -> Extent:
        return product(symbol.extent for symbol in self.columns)


@dataclass(frozen=True, slots=True)
class ScatterGroup:
    """A kernel whose rows write to computed places of a buffer that already holds the base. Its body ends in Stores
    whose indices contain Loaded values; with mode "add" two rows may meet at one place: add atomically or in order."""

    group: FusionGroup
    node: ScatterNode


Step = FusionGroup | ScatterGroup | ExternCall


@dataclass(frozen=True, slots=True)
class Allocation:
    """Before step `before`, buffer `buffer` comes to be: fresh, or in the memory of `reuses`, dead by then."""

    buffer: str
    before: int
    reuses: str | None = None


@dataclass(frozen=True, slots=True)
class Schedule:
    """Steps in running order, what lies at their borders, and the memory plan."""

    program: LoopProgram
    steps: tuple[Step, ...]
    borders: tuple[Border, ...]
    allocations: tuple[Allocation, ...]
    releases: tuple[tuple[int, str], ...]
    """(step, buffer): after that step nobody needs the buffer."""
    buffers: dict[str, Buffer]
    outputs: tuple[Any, ...]
    peak_bytes: int = 0
    """At the sizes at hand, where they vary."""
    held: tuple[int, ...] = ()
    """The bytes held at each step, what waits for its next use included."""

    @property
    def fullest_step(self) -> int | None:
        return max(range(len(self.held)), key=self.held.__getitem__) if self.held else None
