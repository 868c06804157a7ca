"""Views as values: how a view is cut out of its source, and how new contents of a view are put back.

select(x, 0, 2)          apply    -> aten.select.int(x, 0, 2)
x.select(0, 2).zero_()   scatter  -> aten.select_scatter(x, zeros, 0, 2)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import torch

from dynascope.dataclass import dataclass
from dynascope.grad.metadata import kept_strides, layouts_by_torch
from dynascope.grad.reasons import DifferentiationRefused, OperatorFailed
from dynascope.grad.shapes import fresh, inferred_sizes, is_dense, slice_bounds, viewed_strides, wrap_dimension
from dynascope.grad.tape import Layout, Sizes, Value, contiguous_strides
from dynascope.sizes import Size, ceil_divide, divided, hint_of, is_constant, known, same

aten = torch.ops.aten


class Builder(Protocol):
    """Writes steps; see `build.py`."""

    def op(self, target: Any, *arguments: Any, **keywords: Any) -> Any: ...

    def full(self, sizes: Any, number: Any, *, like: Value) -> Value: ...

    def write_view(self, target: Any, source: Value, arguments: tuple[Any, ...], layout: Layout) -> Value: ...


Piece = tuple[Any, tuple[Any, ...], int]
"""An operator that returns several views, its arguments after the source, and the number of the view among them."""


@dataclass(frozen=True, slots=True)
class ViewRecipe:
    """One view operator with its arguments after the source."""

    operator: Any
    arguments: tuple[Any, ...] = ()
    piece_of: Piece | None = None
    """The same view as one of several that one call of an operator makes."""

    @staticmethod
    def strided(sizes: Any, strides: Any, offset: int, root: Any) -> ViewRecipe:
        """A view known by its geometry alone, relative to the values of its storage's first tensor."""
        return ViewRecipe(aten.as_strided.default, (list(sizes), list(strides), offset, root[1], root[2]))

    def apply(self, builder: Builder, source: Value) -> Value:
        make = APPLY.get(self.operator)
        if make is not None:
            return make(builder, source, *self.arguments)
        return apply_view(builder, self.operator, source, self.arguments)

    def scatter(self, builder: Builder, source: Value, value: Value) -> Value | None:
        """The contents of the source after `value` was written to its view; None where that is not expressible."""
        put_back = SCATTER.get(self.operator)
        return None if put_back is None else put_back(builder, source, value, *self.arguments)


def apply_view(builder: Builder, operator: Any, source: Value, arguments: tuple[Any, ...]) -> Value:
    (layout,) = layouts_by_torch(operator, (source, *arguments), {})
    return builder.write_view(operator, source, arguments, layout)


def reshape(builder: Builder, source: Value, sizes: Any) -> Value:
    """A view where strides allow, else a view of a contiguous copy."""
    sizes = inferred_sizes(sizes, source.layout.element_count)
    if same(sizes, source.sizes):
        return source
    strides = viewed_strides(source.sizes, source.strides, sizes)
    if strides is None:
        source = builder.op(aten.clone.default, source, memory_format=torch.contiguous_format)
        strides = contiguous_strides(sizes)
    layout = Layout(sizes, strides, source.dtype, source.device)
    return builder.write_view(aten.view.default, source, (list(sizes),), layout)


def permute(builder: Builder, source: Value, order: Any) -> Value:
    order = [wrap_dimension(d, source.rank) for d in order]
    if order == list(range(source.rank)):
        return source
    layout = Layout(
        tuple(source.sizes[d] for d in order), tuple(source.strides[d] for d in order), source.dtype, source.device
    )
    return builder.write_view(aten.permute.default, source, (order,), layout)


def transpose(builder: Builder, source: Value, first: int, second: int) -> Value:
    order = list(range(source.rank))
    if source.rank == 0:
        return source
    first, second = wrap_dimension(first, source.rank), wrap_dimension(second, source.rank)
    order[first], order[second] = order[second], order[first]
    return permute(builder, source, order)


def _t(builder: Builder, source: Value) -> Value:
    return transpose(builder, source, 0, 1) if source.rank == 2 else source


def expand(builder: Builder, source: Value, sizes: Any, implicit: Any = False) -> Value:
    missing = len(sizes) - source.rank
    own = [source.sizes[i - missing] if size == -1 else size for i, size in enumerate(sizes)]
    if same(own, source.sizes):
        return source
    strides = [
        0 if i < missing or (source.sizes[i - missing] == 1 and own[i] != 1) else source.strides[i - missing]
        for i in range(len(own))
    ]
    return builder.write_view(
        aten.expand.default, source, (own,), Layout(tuple(own), tuple(strides), source.dtype, source.device)
    )


def unsqueeze(builder: Builder, source: Value, dimension: int) -> Value:
    dimension = dimension % (source.rank + 1)
    step = source.sizes[dimension] * source.strides[dimension] if dimension < source.rank else 1
    sizes = (*source.sizes[:dimension], 1, *source.sizes[dimension:])
    strides = (*source.strides[:dimension], step, *source.strides[dimension:])
    return builder.write_view(
        aten.unsqueeze.default, source, (dimension,), Layout(sizes, strides, source.dtype, source.device)
    )


def squeeze(builder: Builder, source: Value, dimensions: Any = None) -> Value:
    """`squeeze` in its three forms, written as `squeeze.dims`."""
    if isinstance(dimensions, int):
        dimensions = [dimensions]
    chosen = range(source.rank) if dimensions is None else {wrap_dimension(d, source.rank) for d in dimensions}
    gone = [d for d in sorted(chosen) if d < source.rank and source.sizes[d] == 1]
    if not gone:
        return source
    kept = [d for d in range(source.rank) if d not in gone]
    layout = Layout(
        tuple(source.sizes[d] for d in kept), tuple(source.strides[d] for d in kept), source.dtype, source.device
    )
    return builder.write_view(aten.squeeze.dims, source, (gone,), layout)


def slice_along(
    builder: Builder, source: Value, dimension: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Value:
    dimension = wrap_dimension(dimension, source.rank)
    size = source.sizes[dimension]
    first, last = slice_bounds(start, end, size)
    if (first, step) == (0, 1) and known(">=", last, size):
        return source
    count = max(0, ceil_divide(last - first, step))
    sizes = (*source.sizes[:dimension], count, *source.sizes[dimension + 1 :])
    strides = (*source.strides[:dimension], source.strides[dimension] * step, *source.strides[dimension + 1 :])
    arguments = (dimension, first, last) if step == 1 else (dimension, first, last, step)
    return builder.write_view(aten.slice.Tensor, source, arguments, Layout(sizes, strides, source.dtype, source.device))


def select(builder: Builder, source: Value, dimension: int, index: int) -> Value:
    dimension = wrap_dimension(dimension, source.rank)
    index = index + source.sizes[dimension] if index < 0 else index
    sizes = source.sizes[:dimension] + source.sizes[dimension + 1 :]
    strides = source.strides[:dimension] + source.strides[dimension + 1 :]
    return builder.write_view(
        aten.select.int, source, (dimension, index), Layout(sizes, strides, source.dtype, source.device)
    )


def _as_strided(
    builder: Builder,
    source: Value,
    sizes: list[int],
    strides: list[int],
    offset: int | None = None,
    root_strides: Any = None,
    root_offset: int = 0,
) -> Value:
    """As a recipe has it, or as an operator's own arguments: values begin where their memory does."""
    offset = root_offset if offset is None else offset
    root_strides = source.strides if root_strides is None else root_strides
    _check_within(source.sizes, root_strides, sizes, strides, offset - root_offset)
    if any(is_constant(size, 0) for size in sizes):
        return builder.full(sizes, 0, like=source)
    source = with_strides(builder, source, root_strides)
    cuts = _as_cuts(source, sizes, strides, offset - root_offset)
    if cuts is not None:
        for recipe in cuts:
            source = recipe.apply(builder, source)
        return source
    layout = Layout(tuple(sizes), tuple(strides), source.dtype, source.device)
    return builder.write_view(
        aten.as_strided.default, _in_own_memory(builder, source), (list(sizes), list(strides), offset - root_offset), layout
    )


def _in_own_memory(builder: Builder, source: Value) -> Value:
    """`as_strided` counts from where the memory begins, which for a part of another value (`select(div, 0, 1)`) is elsewhere, and for
    an input wherever the program has cut it from. So these are copied, to strides of the same order: what is read here is dense."""
    if source.step is None or getattr(source.step.target, "is_view", False):
        return builder.op(aten.clone.default, source, memory_format=torch.preserve_format)
    return source


def _check_within(root_sizes: Sizes, root_strides: Any, sizes: Any, strides: Any, offset: int) -> None:
    """The storage may be larger than the tensor that came in, and hold others' elements between its own: what is not its own is unknown
    here, also where the value that it has by now lies densely."""
    reach = offset + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
    extent = sum((size - 1) * stride for size, stride in zip(root_sizes, root_strides, strict=True)) if 0 not in root_sizes else -1
    if 0 not in sizes and (offset < 0 or reach > extent or not is_dense(root_sizes, root_strides)):
        raise DifferentiationRefused(
            OperatorFailed("as_strided", "it reads memory outside of the tensor it starts from")
        )


def with_strides(builder: Builder, value: Value, strides: Any) -> Value:
    """The same elements laid out with `strides`, which must be dense."""
    strides = tuple(strides)
    if same(strides, value.strides):
        return value
    if value.layout.element_count <= 1:
        return restrided(builder, value, value.sizes, strides)
    order = sorted(range(value.rank), key=lambda d: (-hint_of(strides[d]), -hint_of(value.sizes[d]), d))
    back = [order.index(d) for d in range(value.rank)]
    moved = permute(builder, value, order)
    copied = builder.op(aten.clone.default, moved, memory_format=torch.contiguous_format)
    return permute(builder, copied, back)


def restrided(builder: Builder, value: Value, sizes: Sizes, strides: Sizes) -> Value:
    """Strides of size-1 dimensions and of empty tensors too are eager's."""
    if value.layout.element_count > 1 or value.strides == strides:
        return value
    layout = Layout(sizes, strides, value.dtype, value.device)
    return builder.write_view(aten.as_strided.default, value, (list(sizes), list(strides)), layout)


def _as_cuts(source: Value, sizes: list[int], strides: list[int], offset: int) -> list[ViewRecipe] | None:
    """Slices and selects that give the same elements as `as_strided`, where there are any."""
    if 0 in source.sizes or 0 in sizes or source.strides != contiguous_strides(source.sizes):
        return None
    recipes: list[ViewRecipe] = []
    wanted, dimension = 0, 0
    for size, stride in zip(source.sizes, source.strides, strict=True):
        start, offset = _quotient_and_rest(offset, stride)
        step, rest = divmod(strides[wanted], stride) if wanted < len(sizes) else (0, 0)
        remaining = len(sizes) - wanted
        if wanted < len(sizes) and rest == 0 and step >= 1 and start + (sizes[wanted] - 1) * step < size and remaining:
            end = start + (sizes[wanted] - 1) * step + 1
            recipes.append(ViewRecipe(aten.slice.Tensor, (dimension, start, end, step)))
            wanted += 1
            dimension += 1
        elif start < size:
            recipes.append(ViewRecipe(aten.select.int, (dimension, start)))
        else:
            return None
    return recipes if wanted == len(sizes) and offset == 0 else None


def _quotient_and_rest(offset: Any, stride: Any) -> tuple[Any, Any]:
    """`divmod`, by algebra where that tells: of the last row of n rows it is `n - 1`, whatever n is."""
    whole, rest = divided(offset, stride)
    if known("<", rest, 0):
        whole, rest = whole - 1, rest + stride
    return (whole, rest) if known(">=", rest, 0) and known("<", rest, stride) else divmod(offset, stride)


def _view(builder: Builder, source: Value, sizes: Any, *_: Any) -> Value:
    return reshape(builder, source, sizes)


def _unfold(builder: Builder, source: Value, dimension: int, size: int, step: int) -> Value:
    if source.rank == 0:
        return apply_view(builder, aten.unfold.default, source, (dimension, size, step))
    at = wrap_dimension(dimension, source.rank)
    count = (source.sizes[at] - size) // step + 1
    sizes = (*source.sizes[:at], count, *source.sizes[at + 1 :], size)
    strides = (*source.strides[:at], source.strides[at] * step, *source.strides[at + 1 :], source.strides[at])
    layout = Layout(sizes, strides, source.dtype, source.device)
    return builder.write_view(aten.unfold.default, source, (dimension, size, step), layout)


def diagonal(builder: Builder, source: Value, offset: Any = 0, first: int = 0, second: int = 1) -> Value:
    first, second = wrap_dimension(first, source.rank), wrap_dimension(second, source.rank)
    down, along = (-offset, 0) if offset < 0 else (0, offset)
    count = max(min(source.sizes[first] - down, source.sizes[second] - along), 0)
    kept = [d for d in range(source.rank) if d not in (first, second)]
    sizes = (*(source.sizes[d] for d in kept), count)
    strides = (*(source.strides[d] for d in kept), source.strides[first] + source.strides[second])
    layout = Layout(sizes, strides, source.dtype, source.device)
    return builder.write_view(aten.diagonal.default, source, (offset, first, second), layout)


def _conjugated(builder: Builder, source: Value) -> Value:
    """A value has no conjugate bit: its elements are what they are read as."""
    return builder.op(aten._conj_physical.default, source)


def _negated(builder: Builder, source: Value) -> Value:
    return builder.op(aten.neg.default, source)


def _parts_of_complexes(builder: Builder, source: Value) -> Value:
    """Of what was made of its parts, these."""
    if source.step is not None and source.step.target is aten.view_as_complex.default:
        return source.step.arguments[0]
    return apply_view(builder, aten.view_as_real.default, source, ())


APPLY: dict[Any, Callable[..., Value]] = {
    aten.view_as_real.default: _parts_of_complexes,
    aten._conj.default: _conjugated,
    aten._neg_view.default: _negated,
    aten.view.default: _view,
    aten._reshape_alias.default: _view,
    aten.permute.default: permute,
    aten.transpose.int: transpose,
    aten.t.default: _t,
    aten.expand.default: expand,
    aten.unsqueeze.default: unsqueeze,
    aten.squeeze.default: squeeze,
    aten.squeeze.dim: squeeze,
    aten.squeeze.dims: squeeze,
    aten.slice.Tensor: slice_along,
    aten.select.int: select,
    aten.unfold.default: _unfold,
    aten.diagonal.default: diagonal,
    aten.as_strided.default: _as_strided,
}


def _densely(builder: Builder, target: Any, source: Value, *arguments: Any) -> Value:
    """What the operator makes, without the holes that it would copy from a source that has some."""
    layout = Layout(source.sizes, kept_strides(source, None), source.dtype, source.device)
    return builder.write_view(target, source, arguments, layout)


def _put_back_reshaped(builder: Builder, source: Value, value: Value, *_: Any) -> Value:
    return reshape(builder, value, source.sizes)


def _put_back_permuted(builder: Builder, source: Value, value: Value, order: Any) -> Value:
    wrapped = [wrap_dimension(d, source.rank) for d in order]
    return permute(builder, value, [wrapped.index(d) for d in range(source.rank)])


def _put_back_transposed(builder: Builder, source: Value, value: Value, first: int = 0, second: int = 1) -> Value:
    return transpose(builder, value, first, second) if source.rank > 1 else value


def _put_back_expanded(builder: Builder, source: Value, value: Value, *_: Any) -> Value | None:
    return reshape(builder, value, source.sizes) if value.layout.element_count == source.layout.element_count else None


def _put_back_slice(
    builder: Builder, source: Value, value: Value, dimension: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Value:
    dimension = wrap_dimension(dimension, source.rank)
    first, last = slice_bounds(start, end, source.sizes[dimension])
    size = source.sizes[dimension]
    if step == 1 and known("<=", first, 0) and known(">=", last, size):
        return value
    return _densely(builder, aten.slice_scatter.default, source, value, dimension, first, last, step)


def _put_back_selected(builder: Builder, source: Value, value: Value, dimension: int, index: int) -> Value:
    return _densely(builder, aten.select_scatter.default, source, value, wrap_dimension(dimension, source.rank), index)


def _put_back_diagonal(builder: Builder, source: Value, value: Value, *arguments: Any) -> Value:
    return _densely(builder, aten.diagonal_scatter.default, source, value, *arguments)


def _put_back_strided(
    builder: Builder,
    source: Value,
    value: Value,
    sizes: Any,
    strides: Any,
    offset: int,
    root_strides: Any,
    root_offset: int,
) -> Value:
    _check_within(source.sizes, root_strides, sizes, strides, offset - root_offset)
    if any(is_constant(size, 0) for size in sizes):
        return source
    source = with_strides(builder, source, root_strides)
    cuts = _as_cuts(source, sizes, strides, offset - root_offset)
    if cuts is None:
        own = _in_own_memory(builder, source)
        return builder.op(aten.as_strided_scatter.default, own, value, sizes, strides, offset - root_offset)
    sources = [source]
    for recipe in cuts[:-1]:
        sources.append(recipe.apply(builder, sources[-1]))
    for recipe, parent in zip(reversed(cuts), reversed(sources), strict=True):
        value = recipe.scatter(builder, parent, value)  # type: ignore[assignment]
    return value


def _put_back_dtype(builder: Builder, source: Value, value: Value, *_: Any) -> Value:
    return builder.write_view(aten.view.dtype, value, (source.dtype,), fresh(source.sizes, source.dtype, source.device))


def _put_back_parts(builder: Builder, source: Value, value: Value) -> Value:
    if not (is_constant(value.strides[-1], 1) and all(is_constant(stride % 2, 0) for stride in value.strides[:-1])):
        value = builder.op(aten.clone.default, value, memory_format=torch.contiguous_format)
    return apply_view(builder, aten.view_as_complex.default, value, ())


SCATTER: dict[Any, Callable[..., Value | None]] = {
    aten.view_as_real.default: _put_back_parts,
    aten.view_as_complex.default: lambda builder, source, value: _parts_of_complexes(builder, value),
    aten._conj.default: lambda builder, source, value: _conjugated(builder, value),
    aten._neg_view.default: lambda builder, source, value: _negated(builder, value),
    aten.view.default: _put_back_reshaped,
    aten._reshape_alias.default: _put_back_reshaped,
    aten.unsqueeze.default: _put_back_reshaped,
    aten.squeeze.default: _put_back_reshaped,
    aten.squeeze.dim: _put_back_reshaped,
    aten.squeeze.dims: _put_back_reshaped,
    aten.permute.default: _put_back_permuted,
    aten.transpose.int: _put_back_transposed,
    aten.t.default: _put_back_transposed,
    aten.expand.default: _put_back_expanded,
    aten.slice.Tensor: _put_back_slice,
    aten.select.int: _put_back_selected,
    aten.diagonal.default: _put_back_diagonal,
    aten.as_strided.default: _put_back_strided,
    aten.view.dtype: _put_back_dtype,
}


SPLITS = {
    aten.split.Tensor,
    aten.split_with_sizes.default,
    aten.unsafe_split.Tensor,
    aten.unsafe_split_with_sizes.default,
}


def single_views(operator: Any, sizes: Sizes, arguments: tuple[Any, ...]) -> Callable[[int], ViewRecipe] | None:
    """Recipes for the outputs of an operator that returns several views; None where it returns one."""
    if operator is aten.unbind.int:
        dimension = arguments[0] if arguments else 0
        return lambda i: ViewRecipe(aten.select.int, (dimension, i), (operator, (dimension,), i))
    if operator in SPLITS:
        dimension = wrap_dimension(arguments[1] if len(arguments) > 1 else 0, len(sizes))
        size, pieces = sizes[dimension], arguments[0]
        if isinstance(pieces, (int, Size)):
            pieces = [pieces] * (-(-size // pieces) if pieces else 1)
        ends = [sum(pieces[: i + 1]) for i in range(len(pieces) - 1)]
        cuts = [0, *ends, size]  # the last piece is what is left
        return lambda i: ViewRecipe(aten.slice.Tensor, (dimension, cuts[i], cuts[i + 1]), (operator, arguments, i))
    return None
