"""Memory made functional: which value a tensor stands for, whatever views and in-place operations came before.

    y = x[0]        the geometry of y is remembered as "select of x"; no step is written
    y.add_(1)       x := select_scatter(x, add(select(x), 1))
    z = x + y       reads x's new value, and y's

A `Cell` is one storage. Its tensors are geometries (sizes, strides, offset) on it. The value of a geometry is derived from
its parent's when it is read; a write replaces the values of all of them at once, so no live alias is ever forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field, replace
from typing import Any

import torch

from dynascope.dataclass import dataclass
from dynascope.grad.reasons import DifferentiationRefused, UnsupportedMutation
from dynascope.grad.shapes import preserved_strides, repeats_elements
from dynascope.grad.tape import Sizes, Value, names_of, sizes_in
from dynascope.grad.views import Builder, ViewRecipe, with_strides

Geometry = tuple[Sizes, Sizes, int, torch.dtype, tuple[bool, bool], int]
"""The last two: whether its elements are read negated, and conjugated; which view it is where views are kept apart, else 0."""


def geometry_of(tensor: torch.Tensor) -> Geometry:
    dtype = tensor.dtype
    changed = (tensor.is_neg(), dtype.is_complex and tensor.is_conj())
    return tuple(tensor.shape), tensor.stride(), tensor.storage_offset(), dtype, changed, 0


@dataclass(slots=True)
class Cell:
    """`values` holds what is known of the present contents; `recipes` how each geometry is cut out of another."""

    root: Geometry
    device: torch.device
    storage: torch.UntypedStorage
    values: dict[Geometry, Value]
    input_index: int | None = None
    writes: int = 0
    recipes: dict[Geometry, tuple[Geometry, ViewRecipe]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Contents:
    """What a tensor held at some moment. A write gives its cell other values, so that these stay."""

    cell: Cell
    geometry: Geometry
    values: dict[Geometry, Value]
    maker: int | None
    """The number of the function that it was a result of, in autograd's graph."""


@dataclass(slots=True)
class Memory:
    """All storages met so far. They are kept alive, so that no address is used twice."""

    builder: Builder
    observe: Callable[[Any], Any] = lambda numbers: numbers
    """Numbers that torch computed, as the sizes that they are for every call."""
    tell_apart: Callable[[bool, bool], None] = lambda are_different, is_sure: None
    """Is told whether a view is one that was not there yet: at some sizes `x[:n]` is all of x, or the same as `x[:m]`. Of one that was
    there also whether it is cut by the same numbers, so that it is surely the same."""
    keeps_views_apart: bool = False
    """Whether each view is one of its own: of those that lie alike here, each is itself at other sizes."""
    cells: dict[int, Cell] = field(default_factory=dict)
    settled: frozenset[int] = frozenset()
    """By identity, the cells that the program sees and that no more steps are recorded for: a write to one would be lost."""
    apart: dict[int, tuple[torch.Tensor, Geometry]] = field(default_factory=dict)
    """By identity, the views that are kept apart, alive so that no identity is used twice. A tensor that is none of them (what autograd
    unpacks) has the geometry that it has in memory: cut out of the root, which the trail observes."""

    def geometry(self, tensor: torch.Tensor) -> Geometry:
        found = self.apart.get(id(tensor))
        return geometry_of(tensor) if found is None else found[1]

    def add_same(self, tensor: torch.Tensor, source: torch.Tensor) -> None:
        """`tensor` is another name of `source`."""
        found = self.apart.get(id(source))
        if found is not None and tensor is not source:
            self.apart[id(tensor)] = tensor, found[1]

    def cell(self, tensor: torch.Tensor) -> Cell | None:
        return self.cells.get(tensor.untyped_storage()._cdata)

    def storages(self) -> frozenset[int]:
        return frozenset(self.cells)

    def add(self, tensor: torch.Tensor, value: Value) -> Cell:
        """Register a tensor with memory of its own."""
        storage = tensor.untyped_storage()
        geometry = geometry_of(tensor)
        cell = Cell(geometry, value.device, storage, {geometry: value})
        self.cells[storage._cdata] = cell
        return cell

    def add_view(self, view: torch.Tensor, source: torch.Tensor, recipe: ViewRecipe) -> None:
        cell = self.cells[source.untyped_storage()._cdata]
        if self.keeps_views_apart:
            geometry = (*geometry_of(view)[:-1], len(self.apart) + 1)
            cell.recipes[geometry] = (self.geometry(source), recipe)
            self.apart[id(view)] = view, geometry
            return
        geometry, parent = geometry_of(view), geometry_of(source)
        is_new = self.is_new(cell, geometry, parent)
        self.tell_apart(is_new, is_new or self._late_roots(cell, geometry) == self._late_roots(cell, parent, recipe))
        if is_new:
            cell.recipes[geometry] = (parent, recipe)

    def is_new(self, cell: Cell, geometry: Geometry, parent: Geometry) -> bool:
        """Whether what is cut out of `parent` lies as nothing did before."""
        if geometry == parent or geometry == cell.root or geometry in cell.recipes:
            return False
        return not self._descends(cell, parent, geometry)

    def settle(self, tensors: Sequence[Any]) -> None:
        """What these hold is what the forward pass leaves in them."""
        cells = (self.cell(tensor) for tensor in tensors if isinstance(tensor, torch.Tensor))
        self.settled |= {id(cell) for cell in cells if cell is not None}

    def read(self, tensor: torch.Tensor) -> Value:
        cell = self.cells[tensor.untyped_storage()._cdata]
        return self._derive(cell, self.geometry(tensor))

    def contents(self, tensor: torch.Tensor) -> Contents:
        """For `read_then`, after writes that come."""
        cell = self.cells[tensor.untyped_storage()._cdata]
        function = tensor.grad_fn
        maker = None if function is None else function._sequence_nr()
        return Contents(cell, self.geometry(tensor), cell.values, maker)

    def read_then(self, contents: Contents) -> Value:
        """What the tensor held when `contents` was called."""
        return self._derive(replace(contents.cell, values=contents.values), contents.geometry)

    def write(self, tensor: torch.Tensor, value: Value, operation: str) -> None:
        """`tensor` now holds `value`; so does everything that overlaps it."""
        cell = self.cells[tensor.untyped_storage()._cdata]
        if id(cell) in self.settled:
            raise DifferentiationRefused(UnsupportedMutation(operation, "a backward pass writes to what the program sees"))
        cell.writes += 1
        sizes, strides = self.observe((tuple(tensor.shape), tensor.stride()))
        strides = preserved_strides(Value(replace(value.layout, sizes=sizes, strides=strides)))
        value = with_strides(self.builder, value, strides)  # its order of memory stays, and what follows takes after it
        geometry = self.geometry(tensor)
        if geometry != cell.root and repeats_elements(tensor.shape, tensor.stride()):
            raise DifferentiationRefused(UnsupportedMutation(operation, "its elements share places in memory"))
        known = {geometry: value}
        while geometry != cell.root:
            parent, recipe = self.recipe(cell, geometry)
            scattered = recipe.scatter(self.builder, self._derive(cell, parent), value)
            if scattered is None:
                raise DifferentiationRefused(UnsupportedMutation(operation, f"it writes through `{recipe.operator}`"))
            geometry, value = parent, scattered
            known[geometry] = value
        cell.values = known

    def _derive(self, cell: Cell, geometry: Geometry) -> Value:
        value = cell.values.get(geometry)
        if value is None:
            parent, recipe = self.recipe(cell, geometry)
            value = recipe.apply(self.builder, self._derive(cell, parent))
            cell.values[geometry] = value
        return value

    def recipe(self, cell: Cell, geometry: Geometry) -> tuple[Geometry, ViewRecipe]:
        """What it is cut out of, and how."""
        known = cell.recipes.get(geometry)
        if known is None:
            parent = self._read_alike(cell, geometry)
            geometries = self.observe((geometry[:3], parent[:3]))
            known = parent, ViewRecipe.strided(*geometries[0], geometries[1])
            cell.recipes[geometry] = known
        return known

    @staticmethod
    def _read_alike(cell: Cell, geometry: Geometry) -> Geometry:
        """The storage's first tensor, or its parts where it has complex numbers and the geometry has not: what elements are counted in, and
        read as, is the same in both."""
        root = sizes, strides, offset, dtype, changed, apart = cell.root
        if (geometry[3], geometry[4]) == (dtype, changed):
            return root
        if dtype.is_complex and geometry[3:5] == (dtype.to_real(), (False, False)) == (dtype.to_real(), changed):
            parts = (*sizes, 2), (*(2 * stride for stride in strides), 1), 2 * offset, geometry[3], changed, apart
            cell.recipes.setdefault(parts, (root, ViewRecipe(torch.ops.aten.view_as_real.default)))
            return parts
        raise DifferentiationRefused(UnsupportedMutation("as_strided", f"elements of {dtype} are read as others"))

    @staticmethod
    def _late_roots(cell: Cell, geometry: Geometry, *recipes: ViewRecipe) -> frozenset[str]:
        """The numbers that only the run knows and that it is cut by. All sizes that are asked may lie beyond the end of what is cut, where
        views by different numbers are one."""
        while geometry != cell.root and geometry in cell.recipes:
            geometry, recipe = cell.recipes[geometry]
            recipes = (*recipes, recipe)
        sizes = list(sizes_in([recipe.arguments for recipe in recipes]))
        return frozenset(name for name in names_of(sizes) if any(name in size.scope.late for size in sizes))

    @staticmethod
    def _descends(cell: Cell, geometry: Geometry, ancestor: Geometry) -> bool:
        """Whether `geometry` is cut out of `ancestor`, so that the reverse would close a circle."""
        while geometry in cell.recipes:
            geometry = cell.recipes[geometry][0]
            if geometry == ancestor:
                return True
        return False


def distinct(values: Sequence[Any]) -> list[Any]:
    return list({id(value): value for value in values}.values())
