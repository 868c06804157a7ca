"""Runs loop programs and schedules plainly, value by value over the whole iteration space: what they mean, without a code generator.

    run_program(lower(graph), inputs)      each node by itself, after what it reads
    run_schedule(fuse(program), inputs)    each step, in the memory that the plan gives it

Kernels for GPUs run here as well. Memory that nobody has written holds NaN; what is released is gone; an index outside its buffer
is an error. Rows are run in two parts, the odd ones first: they must not depend on one another.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from dynascope.loops.index import Index, Loaded, Quotient, Symbol
from dynascope.loops.nodes import (
    Body,
    Buffer,
    CheckIndex,
    Compute,
    Constant,
    ExternCall,
    IndexValue,
    Load,
    LoopNode,
    LoopProgram,
    Operation,
    Reduce,
    Scan,
    ScatterNode,
    Store,
    TensorView,
)
from dynascope.schedule.groups import FusionGroup, ScatterGroup, Schedule, Step

Symbols = tuple[Symbol, ...]
Memories = dict[str, torch.Tensor]
"""By buffer: its elements from the data pointer on, in the order of memory."""


def run_program(program: LoopProgram, inputs: Sequence[Any]) -> tuple[Any, ...]:
    memories = _given(program, inputs)
    for node in program.nodes:
        if isinstance(node, ExternCall):
            _call(node, memories)
        elif isinstance(node, ScatterNode):
            memories[node.result.name] = memories[node.base].clone()
            arguments = (*sorted(node.index.loaded), node.value)
            store = Store(node.result.dtype, arguments, node.origin, node.result.name, node.index, node.mode)
            _run((*node.body, store), tuple(loop.symbol for loop in node.loops), (), memories)
        else:
            _run_node(node, memories)
    return tuple(_seen(output, memories) for output in program.outputs)


def run_schedule(schedule: Schedule, inputs: Sequence[Any]) -> tuple[Any, ...]:
    memories = _given(schedule.program, inputs)
    ever = dict(memories)  # of all that was made, what is released included
    for number, step in enumerate(schedule.steps):
        for allocation in schedule.allocations:
            if allocation.before == number:
                name, buffer = allocation.buffer, schedule.buffers[allocation.buffer]
                memories[name] = ever[name] = _allocated(step, allocation.reuses, buffer, ever)
        if isinstance(step, ExternCall):
            _call(step, memories)
        else:
            _run_group(step, memories, schedule.buffers)
        for name in (name for at, name in schedule.releases if at == number):
            del memories[name]
    return tuple(_seen(output, memories) for output in schedule.outputs)


def _given(program: LoopProgram, inputs: Sequence[Any]) -> Memories:
    given = {slot.name: value for slot, value in zip(program.inputs, inputs, strict=True) if isinstance(slot, Buffer)}
    return {name: _memory_of(tensor) for name, tensor in (given | program.constants).items()}


def _memory_of(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().as_strided((_span(tensor.shape, tensor.stride()),), (1,), tensor.storage_offset())


def _span(sizes: Sequence[Any], strides: Sequence[Any]) -> int:
    return 0 if 0 in sizes else 1 + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))


def _allocated(step: Step, reused: str | None, buffer: Buffer, ever: Memories) -> torch.Tensor:
    """What another left there says nothing, but for a scatter's base that becomes its result."""
    memory = torch.empty(_span(buffer.sizes, buffer.strides), dtype=buffer.dtype) if reused is None else ever[reused]
    if isinstance(step, ScatterGroup) and step.node.base == reused:
        return memory
    return memory.fill_(math.nan if buffer.dtype.is_floating_point else buffer.dtype == torch.bool or 77)


def _seen(value: Any, memories: Memories) -> Any:
    """A tensor, or what holds some, as a library call or the caller sees it."""
    if isinstance(value, TensorView):
        memory = memories[value.buffer]
        memory = memory if memory.dtype == value.dtype else memory.view(value.dtype)
        return memory.as_strided(value.sizes, value.strides, memory.storage_offset() + value.offset)
    if isinstance(value, (list, tuple)):
        return type(value)(_seen(each, memories) for each in value)
    if isinstance(value, dict):
        return {name: _seen(each, memories) for name, each in value.items()}
    return value


def _call(call: ExternCall, memories: Memories) -> None:
    keywords = {name: value for name, value in call.keywords.items() if name != "device"}
    results = call.operator(*_seen(call.arguments, memories), **_seen(keywords, memories))
    results = results if isinstance(results, (list, tuple)) else (results,)
    for buffer, result in zip(call.results, results, strict=False):
        if isinstance(buffer, Buffer):
            laid_out = torch.empty_strided(buffer.sizes, buffer.strides, dtype=buffer.dtype).copy_(result)
            memories[buffer.name] = _memory_of(laid_out)


# -- loops -------------------------------------------------------------------------------------------------------------


def _run_node(node: LoopNode, memories: Memories) -> None:
    stores = []
    for result in node.results:
        buffer = result.buffer
        if result is node.results[0] or buffer.name != node.results[0].buffer.name:
            memories[buffer.name] = torch.full((_span(buffer.sizes, buffer.strides),), 0, dtype=buffer.dtype)
        if result.base is not None:
            memories[buffer.name] = memories[result.base].clone()
        terms = tuple((loop.symbol, stride) for loop, stride in zip(node.loops, result.strides, strict=True) if stride)
        stores.append(Store(buffer.dtype, (result.value,), node.origin, buffer.name, Index(terms, result.offset)))
    rows = tuple(loop.symbol for loop in node.loops if not loop.reduced)
    columns = tuple(loop.symbol for loop in node.loops if loop.reduced)
    _run((*node.body, *stores), rows, columns, memories)


def _run_group(step: FusionGroup | ScatterGroup, memories: Memories, buffers: dict[str, Buffer]) -> None:
    group = step.group if isinstance(step, ScatterGroup) else step
    if isinstance(step, ScatterGroup) and memories[step.node.result.name] is not memories[step.node.base]:
        memories[step.node.result.name].copy_(memories[step.node.base])
    read = {operation.buffer for operation in group.body if isinstance(operation, Load)}
    assert read <= set(group.reads), f"{group.name} is not said to read {read - set(group.reads)}"
    for operation in group.body:
        if isinstance(operation, Store) and operation.mode == "sum":
            memories[operation.buffer].zero_()
    _run(group.body, group.rows, group.columns, memories, buffers)


def _run(body: Body, rows: Symbols, columns: Symbols, memories: Memories, buffers: dict[str, Buffer] | None = None) -> None:
    every_row = torch.arange(math.prod(symbol.extent for symbol in rows))
    for part in (every_row[1::2], every_row[::2]):
        if part.numel():
            _Part(part, rows, columns, memories, buffers or {}).run(body)


class _Part:
    """Some rows of a nest. Values of a row are [rows, 1], of an element [rows, columns], of neither [1, 1]."""

    def __init__(self, part: torch.Tensor, rows: Symbols, columns: Symbols, memories: Memories, buffers: dict[str, Buffer]) -> None:
        self.part, self.memories, self.buffers = part, memories, buffers
        self.width = math.prod(symbol.extent for symbol in columns)
        self.symbols = _apart(part[:, None], rows) | _apart(torch.arange(self.width)[None], columns)
        self.values: list[torch.Tensor] = []

    def run(self, body: Body) -> None:
        for operation in body:
            value = self._value(operation)
            assert isinstance(operation, Store) or value.dtype == operation.dtype, (operation, value.dtype)
            self.values.append(value)

    def _value(self, operation: Operation) -> torch.Tensor:
        arguments = [self.values[number] for number in operation.arguments]
        if isinstance(operation, Constant):
            return torch.tensor([[operation.value]], dtype=operation.dtype)
        if isinstance(operation, IndexValue):
            return self._index(operation.index)
        if isinstance(operation, Load):
            return self._loaded(operation)
        if isinstance(operation, Store):
            return self._stored(operation, arguments[-1])
        if isinstance(operation, CheckIndex):
            (at,) = arguments
            at = torch.where(at < 0, at + operation.extent, at) if operation.wraps == "negative" else at
            assert bool(((at >= 0) & (at < operation.extent)).all()), "an index out of range"
            return at
        if isinstance(operation, (Reduce, Scan)):
            whole = arguments[0].expand(len(self.part), self.width)
            return (REDUCTIONS if isinstance(operation, Reduce) else SCANS)[operation.kind](whole, operation.dtype)
        assert isinstance(operation, Compute), operation
        return arguments[0].to(operation.dtype) if operation.name == "cast" else COMPUTATIONS[operation.name](*arguments)

    def _index(self, index: Index) -> torch.Tensor:
        total = torch.full((1, 1), index.constant)
        for atom, factor in index.terms:
            if isinstance(atom, Symbol):
                value = self.symbols[atom]
            elif isinstance(atom, Loaded):
                value = self.values[atom.value]
            else:
                inner = self._index(atom.dividend)
                value = inner // atom.divisor if isinstance(atom, Quotient) else inner % atom.divisor
            assert bool(((value >= 0) & (value < atom.extent)).all()) or isinstance(atom, Loaded), f"{atom} of {index}"
            total = total + value * factor
        return total

    def _loaded(self, load: Load) -> torch.Tensor:
        memory, place = self.memories[load.buffer], self._index(load.index)
        if load.guard is None:
            assert bool(((place >= 0) & (place < len(memory))).all()), f"reads {load.buffer} at {load.index}"
            return memory[place]
        place, allowed = torch.broadcast_tensors(place, self.values[load.guard])
        result = torch.zeros(place.shape, dtype=memory.dtype)
        assert bool(((place >= 0) & (place < len(memory)) | ~allowed).all()), f"reads {load.buffer} at {load.index}"
        result[allowed] = memory[place[allowed]]
        return result

    def _stored(self, store: Store, value: torch.Tensor) -> torch.Tensor:
        memory, place = self.memories[store.buffer], self._index(store.index)
        if store.mode == "sum":
            programs, width = self.buffers[store.buffer].sizes
            place = place + self.part[:, None] % programs * width
        place, value = torch.broadcast_tensors(place, value)
        assert bool(((place >= 0) & (place < len(memory))).all()), f"writes {store.buffer} at {store.index}"
        assert value.dtype == memory.dtype, f"{value.dtype} in {store.buffer}"
        memory.index_put_((place,), value, accumulate=store.mode != "set")
        return value


def _apart(numbers: torch.Tensor, symbols: Symbols) -> dict[Symbol, torch.Tensor]:
    """Of row-major numbers, what each loop is there."""
    found = {}
    for symbol in reversed(symbols):
        found[symbol], numbers = numbers % symbol.extent, numbers // symbol.extent
    return found


def _first(extremum: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[torch.Tensor, torch.dtype], torch.Tensor]:
    def found(value: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        is_it = value == extremum(value)
        is_it = is_it | value.isnan() if value.is_floating_point() else is_it
        places = torch.arange(value.shape[1]).expand_as(value)
        return places.masked_fill(~is_it, value.shape[1]).amin(1, keepdim=True).to(dtype)

    return found


def _sum(value: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    wide = value.double() if value.is_floating_point() else value
    return wide.sum(1, keepdim=True, dtype=wide.dtype if value.is_floating_point() else dtype).to(dtype)


REDUCTIONS: dict[str, Callable[[torch.Tensor, torch.dtype], torch.Tensor]] = {
    "sum": _sum,
    "prod": lambda value, dtype: value.prod(1, keepdim=True, dtype=dtype),
    "max": lambda value, dtype: value.amax(1, keepdim=True),
    "min": lambda value, dtype: value.amin(1, keepdim=True),
    "argmax": _first(lambda value: value.amax(1, keepdim=True)),
    "argmin": _first(lambda value: value.amin(1, keepdim=True)),
    "any": lambda value, dtype: value.any(1, keepdim=True),
    "all": lambda value, dtype: value.all(1, keepdim=True),
}
SCANS: dict[str, Callable[[torch.Tensor, torch.dtype], torch.Tensor]] = {
    "sum": lambda value, dtype: value.cumsum(1, dtype=dtype),
    "prod": lambda value, dtype: value.cumprod(1, dtype=dtype),
    "max": lambda value, dtype: value.cummax(1).values,
    "min": lambda value, dtype: value.cummin(1).values,
}
_NAMES = {
    "absolute": "abs", "truncate": "trunc", "square_root": "sqrt", "reciprocal_square_root": "rsqrt", "negate": "neg",
    "equal": "eq", "not_equal": "ne", "less": "lt", "less_equal": "le", "greater": "gt", "greater_equal": "ge",
    "is_nan": "isnan", "is_infinite": "isinf", "sign_bit": "signbit", "and": "bitwise_and", "or": "bitwise_or",
    "xor": "bitwise_xor", "not": "bitwise_not", "shift_left": "bitwise_left_shift", "shift_right": "bitwise_right_shift",
}  # fmt: skip
_AS_TORCH = """
    absolute floor ceil truncate round square_root reciprocal reciprocal_square_root exp exp2 expm1 log log2 log10 log1p tanh sigmoid erf
    erfc sin cos tan asin acos atan sinh cosh asinh acosh atanh lgamma negate add subtract multiply divide maximum minimum fmax fmin fmod
    copysign pow atan2 hypot nextafter where floor_divide remainder equal not_equal less less_equal greater greater_equal is_nan is_infinite
    sign_bit and or xor not shift_left shift_right
"""
COMPUTATIONS: dict[str, Callable[..., torch.Tensor]] = {
    **{name: getattr(torch, _NAMES.get(name, name)) for name in _AS_TORCH.split()},
    "sign": lambda value: (value > 0).to(value.dtype) - (value < 0).to(value.dtype),
    "truncate_divide": lambda one, other: torch.div(one, other, rounding_mode="trunc"),
}
"""`random` is not among them."""
