"""Scatters as loops over the part that they write, and reads of what such a write left as it was.

    a1 = slice_scatter(a, u, 0, 1, 5)       ->      loops over u, which store to a1[1:5]; a1 begins as what a holds
    a1[7:]                                  ->      is read from a, so that it waits for no write
    a1[1:5]                                 ->      is u
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from dynascope.dataclass import dataclass
from dynascope.loops.body import Refused
from dynascope.loops.dtypes import is_lowered
from dynascope.loops.layouts import is_dense, is_empty
from dynascope.loops.lower.rules import Lowered, Lowering, fit_strides
from dynascope.loops.lower.slices import clamped, inside
from dynascope.loops.nodes import Buffer, LoopNode, Result, TensorView
from dynascope.loops.regions import apart, region_of
from dynascope.sizes import Size, is_constant, same

aten = torch.ops.aten


@dataclass(frozen=True, slots=True)
class _Write:
    """What a buffer is: `old` but for a part, which holds what `source` shows. All that is written lies in `within`."""

    old: str
    part: TensorView
    source: TensorView
    within: TensorView


class PartWrites:
    """The writes so far, by the buffers that they make."""

    def __init__(self) -> None:
        self.writes: dict[str, _Write] = {}

    def write(self, call: Lowering, buffers: dict[str, Buffer]) -> Lowered | None:
        """None where loops over the part cannot say it."""
        base, source = call.arguments[:2]
        if not all(isinstance(view, TensorView) and is_lowered(view.dtype) for view in (base, source)):
            return None
        try:
            part = _part(call, base, source)
        except Refused:
            return None
        if part is None:
            return None
        if self._is_there(base, source, part):
            return Lowered((), replace(base, buffer=source.buffer))
        old = buffers[base.buffer]
        if old.dtype != base.dtype or old.device != call.device or buffers[source.buffer].device != call.device or not is_dense(old):
            return None
        source = self.seen_before(source, buffers)
        nest = call.nest(source.sizes)
        value = nest.load(source, nest.indices).cast(base.dtype)
        new = Buffer(call.new_name(call.node.name), old.dtype, old.device, old.sizes, old.strides)
        strides = fit_strides(nest, replace(new, sizes=part.sizes, strides=part.strides))
        result = Result(new, value.number, strides, part.offset, old.name)
        self.writes[new.name] = _Write(old.name, part, source, base)
        return Lowered((LoopNode(new.name, nest.loops, nest.body, (result,), call.origin),), replace(base, buffer=new.name))

    def _is_there(self, base: TensorView, source: TensorView, part: TensorView) -> bool:
        """Whether the source is the very part of what the base became, all that was written since lying in it."""
        if not _same_places(source, part):
            return False
        names = []
        name = source.buffer
        while name != base.buffer:
            if name not in self.writes or not _same_places(self.writes[name].within, part):
                return False
            names.append(name)
            name = self.writes[name].old
        for name in names:
            self.writes[name] = replace(self.writes[name], within=base)
        return bool(names)

    def seen_before(self, view: Any, buffers: dict[str, Buffer]) -> Any:
        """A tensor as the first buffer shows it that has its elements already. Operands may be nested."""
        if isinstance(view, (list, tuple)):
            return type(view)(self.seen_before(each, buffers) for each in view)
        while isinstance(view, TensorView) and view.buffer in self.writes and not is_empty(view):
            write, buffer = self.writes[view.buffer], buffers[view.buffer]
            if view.dtype != buffer.dtype:
                break
            if _same_places(view, write.part) and write.source.dtype == view.dtype:
                view = write.source
            elif apart(region_of(view, buffer), region_of(write.part, buffer)):
                view = replace(view, buffer=write.old)
            else:
                break
        return view


def _same_places(one: TensorView, other: TensorView) -> bool:
    if len(one.sizes) != len(other.sizes) or not same((one.sizes, one.offset), (other.sizes, other.offset)):
        return False
    strides = zip(one.sizes, one.strides, other.strides, strict=True)
    return all(is_constant(size, 1) or same(mine, theirs) for size, mine, theirs in strides)


def _part(call: Lowering, base: TensorView, source: TensorView) -> TensorView | None:
    """What the scatter writes, as a view."""
    dimension = call.operand(2, "dim", 0) % len(base.sizes)
    size, stride = base.sizes[dimension], base.strides[dimension]
    if call.operator is aten.select_scatter.default:
        place = inside(call.operand(3, "index"), size)
        sizes, strides = (numbers[:dimension] + numbers[dimension + 1 :] for numbers in (base.sizes, base.strides))
        first = place
    else:
        start, step = call.operand(3, "start"), call.operand(5, "step", 1)
        if isinstance(step, Size):
            return None
        first = clamped(start, size)
        sizes = tuple(source.sizes[d] if d == dimension else each for d, each in enumerate(base.sizes))
        strides = tuple(each * step if d == dimension else each for d, each in enumerate(base.strides))
    if len(sizes) != len(source.sizes) or not same(sizes, source.sizes) or is_empty(source):
        return None
    return TensorView(base.buffer, base.dtype, sizes, strides, base.offset + first * stride)
