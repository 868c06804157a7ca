"""The table of lowering rules, and what a rule sees.

A rule takes the `Lowering` of one ATen node and gives a LoopNode (or several values), or `NotLowered(why)`, in which
case the operator is called as it is. Families register with `@rule(aten.sum.dim_IntList, ...)`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Any

import torch
from torch import fx

from dynascope.dataclass import dataclass
from dynascope.loops.body import BodyBuilder, NestBuilder, Refused, Scalar
from dynascope.loops.dtypes import is_lowered
from dynascope.loops.index import Extent, Index
from dynascope.loops.layouts import ResultLayout, result_layouts, row_major
from dynascope.loops.nodes import Buffer, LoopNode, Node, Origin, Result, ScalarInput, TensorView
from dynascope.sizes import Size, is_constant, product, same

Value = Any
"""What an fx node became: TensorView, ScalarInput, Size, a constant, or lists and tuples of them."""


LIBRARY = "no loop form: the library's own kernel runs it"


@dataclass(frozen=True, slots=True)
class NotLowered:
    """This call is not made into loops, and why, for people."""

    why: str


@dataclass(frozen=True, slots=True)
class Lowered:
    """The loop nodes a rule made, and the value that the ATen node stands for from now on."""

    nodes: tuple[Node, ...]
    value: Value


@dataclass(slots=True)
class Lowering:
    """One call being lowered: the node, its operands by name of the schema, and names for new buffers."""

    node: fx.Node
    operator: Any
    arguments: tuple[Value, ...]
    keywords: dict[str, Value]
    origin: Origin
    device: torch.device
    new_name: Callable[[str], str]
    before: list[Node] = field(default_factory=list)
    """What has to run before the node that a rule makes."""
    numbers: dict[str, ScalarInput] = field(default_factory=dict)
    """Operands without dimensions that live on the CPU while the call runs elsewhere, by buffer: they are read there."""
    turned: tuple[Any, ...] | None = None
    """The layouts of what the call returns, where they are not to be eager's (`channels_last.py`)."""

    @property
    def results(self) -> tuple[Any, ...]:
        """The layouts of what the call returns; what is no tensor is itself."""
        return result_layouts(self.node) if self.turned is None else self.turned

    def operand(self, position: int, name: str, default: Any = None) -> Value:
        if position < len(self.arguments):
            return self.arguments[position]
        return self.keywords.get(name, default)

    def nest(self, sizes: tuple[Extent, ...], reduced: frozenset[int] = frozenset()) -> NestBuilder:
        return NestBuilder(self.origin, tuple(sizes), reduced, self.numbers)

    def result_buffer(self, meta: ResultLayout, suffix: str = "") -> Buffer:
        if not is_lowered(meta.dtype):
            raise Refused(f"{meta.dtype} values are not computed in loops")
        if _has_holes(meta):
            raise Refused("a result with holes in its memory")
        name = self.new_name(self.node.name + suffix)
        return Buffer(name, meta.dtype, self.device, meta.shape, meta.strides)

    def scalar(self, nest: BodyBuilder, value: Value, indices: tuple[Index, ...], dtype: torch.dtype) -> Scalar:
        """An operand's element as a scalar of `dtype`: a tensor's element, a graph scalar or a constant."""
        return self.raw_scalar(nest, value, indices, dtype).cast(dtype)

    def raw_scalar(self, nest: BodyBuilder, value: Value, indices: tuple[Index, ...], like: torch.dtype) -> Scalar:
        """As `scalar`, in the operand's own dtype; constants take the dtype `like`."""
        if isinstance(value, TensorView):
            if not is_lowered(value.dtype):
                raise Refused(f"{value.dtype} values are not computed in loops")
            return nest.load(value, indices)
        if isinstance(value, ScalarInput):
            return nest.argument(value.name, value.kind)
        if isinstance(value, (bool, int, float)):
            return nest.constant(value, like)
        if isinstance(value, Size):
            return nest.size(value)
        raise Refused(f"an operand is {type(value).__name__}")

    def finish(self, nest: NestBuilder, *scalars: Scalar) -> Lowered:
        """One LoopNode whose results are `scalars`, in the order of the operator's results."""
        results, views = [], []
        for position, (scalar, meta) in enumerate(zip(scalars, self.results, strict=True)):
            buffer = self.result_buffer(meta, f"_{position}" if len(scalars) > 1 else "")
            strides = fit_strides(nest, buffer)
            results.append(Result(buffer, scalar.cast(meta.dtype).number, strides))
            views.append(view_of(buffer))
        node = LoopNode(results[0].buffer.name, nest.loops, nest.body, tuple(results), self.origin)
        is_list = isinstance(self.node.meta["val"], (list, tuple))
        return Lowered((node,), tuple(views) if is_list else views[0])


def fit_strides(nest: NestBuilder, buffer: Buffer) -> tuple[Extent, ...]:
    """How the loops walk a result: dimension by dimension where ranks agree, else the row loops in order."""
    if len(buffer.sizes) == len(nest.sizes):
        kept = range(len(nest.sizes))
    else:
        kept = [d for d, loop in enumerate(nest.loops) if not loop.reduced]
    strides: list[Extent] = [0] * len(nest.sizes)
    for dimension, size, stride in zip(kept, buffer.sizes, buffer.strides, strict=False):
        strides[dimension] = 0 if is_constant(size, 1) else stride
    return tuple(strides)


def _has_holes(meta: ResultLayout) -> bool:
    """Memory is planned by the number of elements. Most tensors lie row by row, which is told by fewer products."""
    if same(meta.strides, row_major(meta.shape)):
        return False
    elements = product(meta.shape)
    reach = sum((size - 1) * stride for size, stride in zip(meta.shape, meta.strides, strict=True))
    return not is_constant(elements, 0) and reach >= elements


def view_of(buffer: Buffer) -> TensorView:
    return TensorView(buffer.name, buffer.dtype, buffer.sizes, buffer.strides, 0)


def copy_of(call: Lowering, tensor: TensorView, strides: tuple[Extent, ...], suffix: str) -> tuple[LoopNode, TensorView]:
    """A tensor's elements in other memory, which lies with `strides`."""
    nest = call.nest(tensor.sizes)
    scalar = nest.load(tensor, nest.indices)
    buffer = Buffer(call.new_name(call.node.name + suffix), tensor.dtype, call.device, tensor.sizes, strides)
    result = Result(buffer, scalar.number, fit_strides(nest, buffer))
    return LoopNode(buffer.name, nest.loops, nest.body, (result,), call.origin), view_of(buffer)


Rule = Callable[[Lowering], "Lowered | NotLowered"]
RULES: dict[Any, Rule] = {}
ON_GPUS: set[Any] = set()
"""The overloads whose rules are for GPUs alone: on a processor the library is as fast."""


def rule(*operators: Any, on_gpus: bool = False) -> Callable[[Rule], Rule]:
    """Registers the rule of some ATen overloads (all overloads, for a packet)."""

    def register(function: Rule) -> Rule:
        for operator in operators:
            for overload in overloads_of(operator):
                RULES[overload] = function
                if on_gpus:
                    ON_GPUS.add(overload)
        return function

    return register


def overloads_of(operator: Any) -> tuple[Any, ...]:
    if isinstance(operator, torch._ops.OpOverloadPacket):
        return tuple(getattr(operator, name) for name in operator.overloads() if "out" not in name.split("_"))
    return (operator,)


def writes_in_place(graph: fx.GraphModule) -> bool:
    """Whether some operator changes its operand. Loops assume that values never change: such a graph stays a sequence
    of library calls, in the order of the program."""
    schemas = (getattr(node.target, "_schema", None) for node in graph.graph.nodes)
    return any(schema is not None and schema.is_mutable for schema in schemas)
