"""The recording: values, the steps that make them, and the tape that holds the steps in order.

    x: f32[4, 8]            Value(step=None)              an input
    %0 = aten.exp(x)        Step(aten.exp.default, (x,))  its output is a Value again

A `Value` never changes: mutation and aliasing are gone before a step is written (see `storage.py`). It has a layout but
no memory. The tape is a plain list because most steps never become an fx node: fx nodes are made once, at the end.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any

import torch

from dynascope.dataclass import dataclass
from dynascope.grad.reasons import DifferentiationRefused, SparseOperand
from dynascope.report.facts import Phase
from dynascope.report.span import UserStack
from dynascope.sizes import Size, evaluate, hint_of, known, roots_of

Sizes = tuple[int | Size, ...]
META = torch.device("meta")


@dataclass(frozen=True, slots=True)
class Layout:
    """What is known of a tensor without its elements. `strides` count elements."""

    sizes: Sizes
    strides: Sizes
    dtype: torch.dtype
    device: torch.device
    is_sparse: bool = field(default=False, repr=False)
    """It has no memory that a kernel could read: what an operator gives may leave the graph, and no other operator gets it."""

    @property
    def element_count(self) -> int:
        count = 1
        for size in self.sizes:
            count *= size
        return count

    @property
    def byte_count(self) -> int:
        """Of the sizes at hand where they vary: what something costs, not how much to allocate."""
        return math.prod(map(hint_of, self.sizes)) * self.dtype.itemsize

    @property
    def varies(self) -> bool:
        """Whether a size or stride is no constant."""
        return Size in map(type, self.sizes) or Size in map(type, self.strides)

    def at_hand(self) -> Layout:
        """The same for the sizes of the call that is compiled."""
        if not self.varies:
            return self
        return Layout(tuple(map(hint_of, self.sizes)), tuple(map(hint_of, self.strides)), self.dtype, self.device, self.is_sparse)


def elements_spanned(sizes: Sequence[int], strides: Sequence[int]) -> int:
    """From a tensor's first element to its last, with what lies between."""
    return 0 if 0 in sizes else 1 + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))


def contiguous_strides(sizes: Sizes) -> Sizes:
    strides: list[Any] = [1] * len(sizes)
    for at in range(len(sizes) - 1, 0, -1):
        size = sizes[at]
        strides[at - 1] = strides[at] * (size if size.__class__ is Size and known(">=", size, 1) else max(size, 1))
    return tuple(strides)


def layout_of(tensor: torch.Tensor, device: torch.device) -> Layout:
    return Layout(tuple(tensor.shape), tensor.stride(), tensor.dtype, device, tensor.layout is not torch.strided)


@dataclass(eq=False, slots=True)
class Value:
    """One tensor that a step made, or that came from outside (`step` is None). `index` is its place among the outputs."""

    layout: Layout
    step: Step | None = None
    index: int = 0
    name: str = ""

    @property
    def sizes(self) -> Sizes:
        return self.layout.sizes

    @property
    def strides(self) -> Sizes:
        return self.layout.strides

    @property
    def dtype(self) -> torch.dtype:
        return self.layout.dtype

    @property
    def device(self) -> torch.device:
        return self.layout.device

    @property
    def rank(self) -> int:
        return len(self.layout.sizes)

    def meta(self) -> torch.Tensor:
        """A meta tensor of this layout, sharing memory with nothing."""
        return meta_tensor(self.layout)


def meta_tensor(layout: Layout) -> torch.Tensor:
    """Of this layout, at the sizes at hand."""
    layout = layout.at_hand()
    return torch.empty_strided(layout.sizes, layout.strides, dtype=layout.dtype, device=META)


@dataclass(eq=False, slots=True)
class Number:
    """A number that a step makes when the program runs, such as a seed. (Numbers that the program brings are `Size`s.)"""

    example: int | float
    step: Step | None = None
    index: int = 0
    name: str = ""


@dataclass(frozen=True, slots=True)
class Origin:
    """The Torch IR node that a step comes from."""

    node: str
    user_stack: UserStack = ()
    stack_trace: str | None = None
    made_again: bool = False
    """Whether the program wants its result computed again for the backward pass, not kept (checkpoint)."""
    piece: int = 0
    """Of work that is done in pieces, one after the other, which one it is: no two share a kernel. 0 for all other work."""


NOWHERE = Origin("")

PLAIN = frozenset({int, float, bool, str, type(None), torch.dtype, torch.device})
LEAVES = PLAIN | {Value, Number, torch.Tensor}


@dataclass(eq=False, slots=True)
class Step:
    """One operator applied. `arguments` and `keywords` hold values, numbers and plain data."""

    target: Callable[..., Any]
    arguments: tuple[Any, ...]
    keywords: dict[str, Any]
    origin: Origin
    phase: Phase
    outputs: tuple[Value | Number | None, ...] = ()
    is_random: bool = False
    has_effect: bool = False
    """It stays though nobody reads what it returns, and it is not the same as an equal step."""
    reader: str = ""
    """Whose error an index out of range is, where it is not the target's own (see `READERS` of loops/readers.py)."""
    _found: tuple[Any, Any, list[Value | Number]] | None = field(default=None, repr=False)
    """Arguments and keywords with what is in them: many stages ask, and few of them give a step others."""

    def inputs(self) -> list[Value | Number]:
        """The values and numbers in its arguments; whoever gets the list leaves it as it is."""
        known = self._found
        if known is not None and known[0] is self.arguments and known[1] is self.keywords:
            return known[2]
        found: list[Value | Number] = []
        _gather(self.arguments, found)
        if self.keywords:
            _gather(tuple(self.keywords.values()), found)
        self._found = self.arguments, self.keywords, found
        return found


def leaves(data: Any) -> list[Value | Number]:
    """Every value and number inside nested lists, tuples and dictionaries."""
    found: list[Value | Number] = []
    _gather((data,), found)
    return found


def _gather(items: Iterable[Any], found: list[Value | Number]) -> None:
    for item in items:
        kind = type(item)
        if kind is Value or kind is Number:
            found.append(item)
        elif kind in PLAIN:
            continue
        elif isinstance(item, (list, tuple)):
            _gather(item, found)
        elif isinstance(item, dict):
            _gather(item.values(), found)


def sizes_in(data: Any) -> Iterator[Size]:
    """Every number that varies inside nested data, those of the values' layouts included."""
    if isinstance(data, Size):
        yield data
    elif isinstance(data, Value):
        yield from sizes_in(data.layout)
    elif isinstance(data, Layout):
        if data.varies:
            yield from (extent for extent in (*data.sizes, *data.strides) if isinstance(extent, Size))
    elif isinstance(data, (list, tuple)):
        for item in data:
            yield from sizes_in(item)
    elif isinstance(data, dict):
        for item in data.values():
            yield from sizes_in(item)


def has_sizes(data: Any) -> bool:
    """Whether there is any of `sizes_in`."""
    if isinstance(data, Value):
        return data.layout.varies
    if isinstance(data, (list, tuple)):
        return any(map(has_sizes, data))
    if isinstance(data, dict):
        return has_sizes(tuple(data.values()))
    return data.varies if isinstance(data, Layout) else isinstance(data, Size)


def numbers_at(data: Any, values: Mapping[str, Any]) -> Any:
    """Nested data, values and layouts included, with each size's number for the roots' values."""
    if type(data) in PLAIN:
        return data
    if isinstance(data, Size):
        return evaluate(data.expression, values)
    if isinstance(data, Value):
        return Value(numbers_at(data.layout, values)) if data.layout.varies else data
    if isinstance(data, Layout):
        sizes, strides = (
            tuple(evaluate(extent.expression, values) if extent.__class__ is Size else extent for extent in extents)
            for extents in (data.sizes, data.strides)
        )
        return Layout(sizes, strides, data.dtype, data.device)
    if isinstance(data, (list, tuple)):
        return type(data)(numbers_at(item, values) for item in data)
    if isinstance(data, dict):
        return {key: numbers_at(item, values) for key, item in data.items()}
    return data


def names_of(sizes: Iterable[Size]) -> frozenset[str]:
    """The names of the roots that numbers are computed from."""
    return frozenset(root.name for root in roots_of(sizes))


def replace(data: Any, mapping: Callable[[Any], Any]) -> Any:
    """The same data with `mapping` applied to each leaf."""
    if isinstance(data, (list, tuple)):
        # Most items are leaves: these are not worth a call to find out.
        items = [mapping(item) if type(item) in LEAVES else replace(item, mapping) for item in data]
        return items if isinstance(data, list) else tuple(items)
    if isinstance(data, dict):
        return {key: replace(item, mapping) for key, item in data.items()}
    return mapping(data)


@dataclass(slots=True)
class Tape:
    """The steps so far, and where the next one comes from."""

    steps: list[Step] = field(default_factory=list)
    origin: Origin = NOWHERE
    phase: Phase = "forward"
    constants: dict[str, torch.Tensor] = field(default_factory=dict)
    seeds: dict[torch.device, Number] = field(default_factory=dict)
    """The seed that each device's random numbers of this call come from."""
    streams: int = 0
    """How many random tensors there are so far; the next one's offset."""
    has_sparse: bool = False

    def write(
        self,
        target: Callable[..., Any],
        arguments: tuple[Any, ...],
        keywords: dict[str, Any],
        layouts: list[Layout | None],
    ) -> Step:
        """Add a step with one output for each layout; None stands for an output that the operator leaves undefined."""
        step = self._step(target, arguments, keywords)
        if self.has_sparse and any(isinstance(leaf, Value) and leaf.layout.is_sparse for leaf in leaves((arguments, keywords))):
            raise DifferentiationRefused(SparseOperand(getattr(target, "__name__", str(target)).partition(".")[0]))
        outputs: list[Value | None] = []
        for index, layout in enumerate(layouts):
            outputs.append(None if layout is None else Value(layout, step, index))
            self.has_sparse |= layout is not None and layout.is_sparse
        step.outputs = tuple(outputs)
        self.steps.append(step)
        return step

    def write_number(self, target: Callable[..., Any], arguments: tuple[Any, ...], example: int | float) -> Number:
        step = self._step(target, arguments, {})
        number = Number(example, step)
        step.outputs = (number,)
        self.steps.append(step)
        return number

    def _step(self, target: Callable[..., Any], arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Step:
        random, effect = _kind(target)
        return Step(target, arguments, keywords, self.origin, self.phase, is_random=random, has_effect=effect)


def is_random(target: Callable[..., Any]) -> bool:
    return torch.Tag.nondeterministic_seeded in getattr(target, "tags", ())


@functools.cache
def _kind(target: Callable[..., Any]) -> tuple[bool, bool]:
    return is_random(target), has_effect(target)


@functools.cache
def has_effect(target: Callable[..., Any]) -> bool:
    """Whether a call does more than return a value: it draws a random number, writes to an operand, or returns nothing and so
    is there to raise an error. An operator of a library of the program's own is taken to."""
    schema = getattr(target, "_schema", None)
    if schema is None:
        return is_random(target)
    return is_random(target) or schema.is_mutable or not schema.returns or is_of_program(target)


def is_of_program(operator: Any) -> bool:
    """Whether it belongs to a library of the program's own."""
    return operator.namespace not in ("aten", "prims", "dynascope")
