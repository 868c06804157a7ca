"""The recorder of other sizes: of those recordings only numbers and layouts are read.

    x f32[5042, 8]       aten.view(x, [10084, 4])     (10084, 4) goes to the trail
                         aten.add(x, 1)               laid out as an earlier one of such operands was: no value, no step

What it tells the trail is what `Recorder` would tell it, operator for operator. An operator of operands not met before, one of what has to
be cut out of memory that was written to, and all but plain functions and views go the long way.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import torch

from dynascope.dataclass import dataclass
from dynascope.grad.layout_builder import LayoutBuilder
from dynascope.grad.mutations import MUTATIONS
from dynascope.grad.operators import is_view, traits
from dynascope.grad.record import FAKE, Recorder, in_order
from dynascope.grad.storage import Cell, Geometry, Memory, geometry_of
from dynascope.grad.tape import META, PLAIN, Layout, Value, layout_of
from dynascope.grad.trails import told_of
from dynascope.grad.views import ViewRecipe
from dynascope.meta_kernels import autocast

aten = torch.ops.aten
_NAMES = (PLAIN | {torch.memory_format, torch.layout}) - {float}
_ORDINARY = frozenset({(), (torch.Tensor,)})
"""What torch says of operands whose class has no behaviour of its own."""


@dataclass(slots=True)
class LayoutMemory(Memory):
    """A tensor of memory that nobody wrote to lies as its stand-in does."""

    def add_view(self, view: torch.Tensor, source: torch.Tensor, recipe: ViewRecipe) -> None:
        """Whether it is cut by the same numbers as one that lies alike is asked by the recording at hand."""
        if self.keeps_views_apart:
            Memory.add_view(self, view, source, recipe)
            return
        cell = self.cells[source.untyped_storage()._cdata]
        geometry, parent = geometry_of(view), geometry_of(source)
        is_new = self.is_new(cell, geometry, parent)
        self.tell_apart(is_new, True)
        if is_new:
            cell.recipes[geometry] = (parent, recipe)

    def add_result(self, tensor: torch.Tensor, layout: Layout) -> None:
        """Register a tensor with memory of its own, whose value is made where it is asked for."""
        storage = tensor.untyped_storage()
        geometry = layout.sizes, layout.strides, 0, layout.dtype, (False, False), 0
        self.cells[storage._cdata] = Cell(geometry, layout.device, storage, {})

    def _derive(self, cell: Cell, geometry: Geometry) -> Value:
        if geometry in cell.values or (cell.writes and geometry != cell.root):
            return Memory._derive(self, cell, geometry)
        if geometry != cell.root:
            self.recipe(cell, geometry)  # the trail hears of views that were not there yet
        sizes, strides, _, dtype, _, _ = geometry
        value = cell.values[geometry] = Value(Layout(sizes, strides, dtype, cell.device))
        return value


class LayoutRecorder(Recorder):
    """Needs a trail without others."""

    make_builder = LayoutBuilder
    make_memory = LayoutMemory

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        way = _WAYS.get(id(func)) or _way_of(func)
        if way.kind != "long" and types in _ORDINARY and torch._C._get_dispatch_mode(FAKE) is None and func not in self.of_tensors:
            numbers: list[Any] = []
            described: list[Any] = [way]
            if self._describe(args, described, numbers) and (not kwargs or self._describe(kwargs.items(), described, numbers)):
                if way.kind != "function":
                    result = self._viewed(way, args, kwargs or {}, numbers)
                    if result is not NotImplemented:
                        return result
                else:
                    described.append(torch.get_default_dtype())
                    known = _KNOWN.get(key := tuple(described))
                    if known is not None:
                        return self._laid_out(known, numbers)
                    result = super().__torch_dispatch__(func, types, args, kwargs)
                    self._remember(key, func, result)
                    return result
        return super().__torch_dispatch__(func, types, args, kwargs)

    def _describe(self, data: Iterable[Any], described: list[Any], numbers: list[Any]) -> bool:
        """Adds what is given to both. Whether it is numbers, names and tensors of which nothing has to be cut out of what somebody wrote,
        and nothing else."""
        cells = self.memory.cells
        for item in data:
            kind = type(item)
            if kind is torch.Tensor:
                cell, dtype = cells.get(item.untyped_storage()._cdata), item.dtype
                if cell is None or item.is_neg() or dtype.is_complex:
                    return False
                if not cell.writes:
                    described.append((item.shape, item.stride(), dtype, cell.device))
                elif (value := cell.values.get(self.memory.geometry(item))) is not None:  # it may lie otherwise than its stand-in
                    described.append((value.sizes, value.strides, dtype, cell.device))
                else:
                    return False
            elif kind is int or kind is bool or (kind is float and item == item):
                numbers.append(item)
                described += kind, item
            elif kind is tuple or kind is list or kind is torch.Size:
                described.append(len(item))
                if not self._describe(item, described, numbers):
                    return False
            elif kind in _NAMES:
                described.append(item)
            else:
                return False
        return True

    def _remember(self, key: tuple, func: Any, result: Any) -> None:
        layouts: list[Layout | None] = []
        for each in result if isinstance(result, tuple) else (result,):
            cell = None if each is None else self.memory.cell(each)
            if cell is None and each is not None:
                return
            layouts.append(cell and layout_of(each, cell.device))
        if len(_KNOWN) >= _MOST_KNOWN:
            _KNOWN.clear()
        _KNOWN[key] = Known(layouts, told_of(func, [each for each in layouts if each is not None]), isinstance(result, tuple))

    def _laid_out(self, known: Known, numbers: list[Any]) -> Any:
        assert self.trail is not None and isinstance(self.memory, LayoutMemory)
        self.trail.note(tuple(numbers), known.told)
        with torch._C._DisableTorchDispatch():
            made = [
                None if each is None else torch.empty_strided(each.sizes, each.strides, dtype=each.dtype, device=META)
                for each in known.layouts
            ]
        for tensor, layout in zip(made, known.layouts, strict=True):
            if tensor is not None and layout is not None:
                self.memory.add_result(tensor, layout)
        return tuple(made) if known.are_several else made[0]

    def _viewed(self, way: Way, args: Any, kwargs: dict[str, Any], numbers: list[Any]) -> Any:
        try:
            with torch._C._AutoDispatchBelowAutograd(), autocast.suspended():
                result = way.operator(*args, **kwargs)
        except Exception:
            return NotImplemented  # the long way says what is wrong
        assert self.trail is not None
        self.trail.note(tuple(numbers))
        if way.kind == "same":
            self.memory.add_same(result, args[0])
        else:
            self.memory.add_view(result, args[0], ViewRecipe(way.operator, in_order(way.operator, args, kwargs)[1:]))
        return result


@dataclass(eq=False, slots=True)
class Way:
    """How an operator is recorded. One object for each: a dictionary finds it without asking the operator."""

    operator: Any
    kind: Literal["function", "view", "same", "long"]


@dataclass(frozen=True, slots=True)
class Known:
    """What an operator gave: the layouts of its results, None where there is none, and what the trail was told of it."""

    layouts: list[Layout | None]
    told: tuple
    are_several: bool


_WAYS: dict[int, Way] = {}
_KNOWN: dict[tuple, Known] = {}
_MOST_KNOWN = 20_000


def _way_of(operator: Any) -> Way:
    way = _WAYS[id(operator)] = Way(operator, _kind_of(operator))
    return way


def _kind_of(operator: Any) -> Literal["function", "view", "same", "long"]:
    facts = traits(operator)
    if facts.kind == "same":
        return "same"
    if facts.kind == "view" and is_view(operator) and operator is not aten.as_strided.default:
        return "view"
    makes_tensors = all(str(each.type) == "Tensor" for each in operator._schema.returns)
    is_function = facts.kind == "plain" and operator.namespace == "aten" and operator not in MUTATIONS
    return "function" if is_function and makes_tensors else "long"
