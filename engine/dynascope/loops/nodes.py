"""The loop IR: what a code generator reads.

A program is a list of nodes over named buffers. A `LoopNode` is a loop nest whose body is data: scalar operations in
SSA over the whole iteration space. For `y = x.sum(1)` with x f32[4, 8]:

    s = loops(i0: 4, c1: 8 reduced)                 # model.py:3: y = x.sum(1)
        %0 = load x[8*i0 + c1]          f32
        %1 = reduce sum %0              f32
        s[i0] = %1

How to read a body:
- A value is an `Operation`; its number is its position. Arguments are numbers of earlier values.
- A value that depends on a reduced loop (through a load's or an `IndexValue`'s index, or an argument) exists once for
  each element of the nest; one that does not exists once a row. `Reduce` takes the former and makes the latter, over
  ALL reduced loops. A value after a `Reduce` may use elements again: that is a second pass over the same row.
- Types are explicit. Arithmetic happens in the operation's own dtype, which is the dtype of its arguments (comparisons
  make bool). bf16 and f16 are never computed in: bodies `cast` to f32 and `cast` back where eager rounds.
- Integer arithmetic wraps. `maximum`, `minimum` and reduce max/min propagate NaN. See `operations.py`.
- An index counts elements, from the buffer's data pointer (storage offsets of inputs are already in that pointer).
- `Load.guard` is a bool value: where it is false nothing is read and the load gives 0.
- An indirect index appears in an index expression as `Loaded(value)`. The value is the result of a `CheckIndex`, which
  wraps negative indices and makes the kernel report an out-of-range index instead of reading wild memory, or is in range as the
  rule computes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Literal

import torch

from dynascope.dataclass import dataclass
from dynascope.loops.index import Extent, Index, Symbol
from dynascope.loops.readers import Reader
from dynascope.report.span import Span, UserStack
from dynascope.sizes import Size, is_constant, product, same

ReduceKind = Literal["sum", "prod", "max", "min", "argmax", "argmin", "any", "all"]
ScanKind = Literal["sum", "prod", "max", "min"]
StoreMode = Literal["set", "add", "sum"]
BufferRole = Literal["input", "temporary", "constant"]


@dataclass(frozen=True, slots=True)
class Origin:
    """Where an operation comes from: the ATen node, its operator, and the user's line."""

    node: str
    operator: str
    stack: UserStack = ()
    piece: int = 0
    """Of work that is done in pieces, one after the other, which one it is: no two share a kernel."""

    @property
    def span(self) -> Span | None:
        return self.stack[-1].span if self.stack else None


def is_row_major(sizes: Sequence[Extent], strides: Sequence[Extent]) -> bool:
    """Whether strides are a contiguous tensor's. Those of dimensions of one element may be anything."""
    expected: Extent = 1
    for size, stride in zip(reversed(sizes), reversed(strides), strict=True):
        if not is_constant(size, 1) and not same(stride, expected):
            return False
        expected = expected * size
    return True


@dataclass(frozen=True)
class Buffer:
    """Memory with a layout. Element (i, j, ...) is at sum(index * stride) from the data pointer."""

    name: str
    dtype: torch.dtype
    device: torch.device
    sizes: tuple[Extent, ...]
    strides: tuple[Extent, ...]
    role: BufferRole = "temporary"
    is_aligned: bool = True
    """Whether it probably begins at a multiple of 16 bytes, as what torch allocates does: an input of the first call may not."""

    @cached_property
    def elements(self) -> Extent:
        return product(self.sizes)

    @cached_property
    def bytes(self) -> Extent:
        return self.elements * self.dtype.itemsize

    @cached_property
    def is_row_major(self) -> bool:
        return is_row_major(self.sizes, self.strides)


@dataclass(frozen=True, slots=True)
class Operation:
    """Base of the body's operations. `dtype` is the result's."""

    dtype: torch.dtype
    arguments: tuple[int, ...]
    origin: Origin


@dataclass(frozen=True, slots=True)
class Load(Operation):
    """The element of `buffer` at `index`. Arguments: the guard if there is one, then the values `index` depends on."""

    buffer: str
    index: Index
    guard: int | None = None


@dataclass(frozen=True, slots=True)
class Store(Operation):
    """Writes its last argument to `buffer` at `index`. Only in bodies of fusion groups. The value of `add` is added. Of `sum` the
    values of all rows that one program takes are added up; `index` is the place in that program's row of the buffer.

    A row-level value is written once a row (its index has no reduced loop in it).
    """

    buffer: str
    index: Index
    mode: StoreMode = "set"

    @property
    def value(self) -> int:
        return self.arguments[-1]


@dataclass(frozen=True, slots=True)
class Constant(Operation):
    """A number known now: int, float (inf and nan included) or bool, as `dtype`."""

    value: bool | int | float


@dataclass(frozen=True, slots=True)
class Argument(Operation):
    """A scalar that the kernel receives at each call, as int64 or float64: the number `name` of the wrapper's, which is
    an input of the graph, what a library call returned, or `size`, computed by the wrapper."""

    name: str
    size: Size | None = None


@dataclass(frozen=True, slots=True)
class IndexValue(Operation):
    """The value of an index expression, as int64."""

    index: Index


@dataclass(frozen=True, slots=True)
class CheckIndex(Operation):
    """Its argument (int64) as an index into a dimension of size `extent`: negative wraps, out of range is an error.

    The error is reported after the kernel ran, as eager's exception of the operator that `reader` names, and nothing
    outside was read.
    """

    extent: Extent
    dimension: int
    wraps: Literal["negative", "never"]
    reader: Reader = "index"


@dataclass(frozen=True, slots=True)
class Compute(Operation):
    """An elementwise scalar operation by name; `operations.TABLE` says what each means."""

    name: str


@dataclass(frozen=True, slots=True)
class Reduce(Operation):
    """Its argument over all reduced loops, row-major. argmax and argmin give the linear index (int64) of the first
    extremum over the reduced loops (a NaN is the extremum); sums of f32 accumulate at least as well as pairwise."""

    kind: ReduceKind


@dataclass(frozen=True, slots=True)
class Scan(Operation):
    """Of its argument over the one reduced loop, up to each element and with it: a value for each element, in the pass of its
    argument. Of equal extrema (zeros of either sign) it is the last one. Only on GPUs."""

    kind: ScanKind


Body = tuple[Operation, ...]


@dataclass(frozen=True, slots=True)
class Loop:
    """One loop of a nest: its variable and whether reductions run over it."""

    symbol: Symbol
    reduced: bool

    @property
    def size(self) -> Extent:
        return self.symbol.extent


@dataclass(frozen=True, slots=True)
class Result:
    """The body value that a node leaves in a buffer: at `offset + sum(loop * stride)` elements from its start. Results of one buffer
    are parts of it. Of a buffer that begins as what `base` holds, only a part is written.

    `strides` has one entry for each loop of the node; it is 0 for loops that do not index the result (reduced loops of
    a row-level value) and for loops that run once.
    """

    buffer: Buffer
    value: int
    strides: tuple[Extent, ...]
    offset: Extent = 0
    base: str | None = None


@dataclass(frozen=True, slots=True)
class LoopNode:
    """Pointwise (no reduced loop) or Reduction (some), with one or more results. Loops are outermost first, in the
    row-major order of the iterated tensor, reduced ones in their places."""

    name: str
    loops: tuple[Loop, ...]
    body: Body
    results: tuple[Result, ...]
    origin: Origin

    @property
    def kind(self) -> Literal["pointwise", "reduction"]:
        reduces = any(loop.reduced and not is_constant(loop.size, 1) for loop in self.loops)
        return "reduction" if reduces else "pointwise"

    @property
    def device(self) -> torch.device:
        return self.results[0].buffer.device

    @property
    def bases(self) -> tuple[str, ...]:
        """What its results begin as, where they are written in part."""
        return tuple(result.base for result in self.results if result.base is not None)


@dataclass(frozen=True, slots=True)
class ScatterNode:
    """Writes `value` at computed places of `result`, which starts as a copy of `base` and is updated in memory.

    `index` gives the flat place; with mode "set" and equal places, which one wins is unspecified, as in eager.
    """

    name: str
    loops: tuple[Loop, ...]
    body: Body
    value: int
    index: Index
    mode: StoreMode
    base: str
    result: Buffer
    origin: Origin

    @property
    def device(self) -> torch.device:
        return self.result.device


@dataclass(frozen=True, slots=True)
class TensorView:
    """A tensor as an extern call or the caller sees it: a buffer, seen with sizes, strides and an offset."""

    buffer: str
    dtype: torch.dtype
    sizes: tuple[Extent, ...]
    strides: tuple[Extent, ...]
    offset: Extent


@dataclass(frozen=True, slots=True)
class ScalarInput:
    """A Python number that the caller passes at each call, or that a library call returns. `name` is the wrapper's."""

    name: str
    kind: Literal["int", "float"]


@dataclass(frozen=True, slots=True)
class ExternCall:
    """An ATen operator called as it is. `arguments` and `keywords` hold TensorViews, ScalarInputs and constants, in
    lists and tuples as the operator takes them. `results` has one buffer per tensor that it returns (None: not a
    tensor or not used)."""

    name: str
    operator: Any
    arguments: tuple[Any, ...]
    keywords: dict[str, Any]
    results: tuple[Buffer | None, ...]
    origin: Origin
    why: str = ""

    @property
    def device(self) -> torch.device | None:
        return next((b.device for b in self.results if b is not None), None)


Node = LoopNode | ScatterNode | ExternCall


@dataclass(frozen=True, slots=True)
class LoopProgram:
    """A lowered graph. `inputs` in calling order: a Buffer, a ScalarInput, or None for what is never used.
    `outputs` in returning order: a TensorView, a ScalarInput (passed through), a Size, or a constant."""

    name: str
    inputs: tuple[Buffer | ScalarInput | None, ...]
    nodes: tuple[Node, ...]
    outputs: tuple[Any, ...]
    buffers: dict[str, Buffer]
    constants: dict[str, torch.Tensor]
    """Tensors the graph holds as attributes, by the name of their buffer (role constant)."""
    repeats: Any = None
    """The graph's equal layers (`loops.lower.repeats.Repeats`), where those in the middle are left out. Until `fuse` has written them
    again the outputs among them are those of the last layer before."""
    is_strict: bool = False
    """Whether every operation rounds as eager's, also on the way to fewer bits (`numerics="strict"`)."""


def views_in(value: object) -> list[TensorView]:
    """Every tensor in nested operands."""
    if isinstance(value, TensorView):
        return [value]
    if isinstance(value, (list, tuple)):
        return [view for item in value for view in views_in(item)]
    if isinstance(value, dict):
        return [view for item in value.values() for view in views_in(item)]
    return []
