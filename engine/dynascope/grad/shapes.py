"""Sizes, strides and dtypes of what operators make, without asking torch: its Python meta kernels cost 100 us and more.

    pointwise(f32[4, 1], bf16[8])  ->  sizes (4, 8), strides (8, 1), dtype f32

The rules are TensorIterator's. An operator without a rule here asks torch's own meta kernel (see `metadata.py`).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

import torch

from dynascope.grad.tape import Layout, Sizes, Value, contiguous_strides
from dynascope.meta_kernels.quiet_torch import complex_beside
from dynascope.sizes import Size, hints_of, is_constant, known, known_by_now, same


class ShapeMismatch(RuntimeError):
    """The operands do not fit together; eager raises for them too."""


def broadcast(*shapes: Sizes) -> Sizes:
    first = shapes[0]
    if all(same(shape, first) for shape in shapes):
        return first
    return tuple(_common_size([shape[d] for shape in shapes if len(shape) >= -d], shapes) for d in range(-max(map(len, shapes)), 0))


def _common_size(sizes: Sequence[Any], shapes: Sequence[Sizes]) -> Any:
    """Of one dimension. Whether a size that varies is 1 decides nothing where all others are it by algebra, or 1."""
    result: Any = 1
    for size in sizes:
        if is_constant(size, 1) or same(size, result):
            continue
        if is_constant(result, 1):
            result = size
        elif size != 1:
            if result not in (1, size):
                raise ShapeMismatch(f"sizes {' and '.join(str(list(s)) for s in shapes)} cannot be broadcast")
            result = size
    return result


def is_dense(sizes: Sizes, strides: Sizes) -> bool:
    """Whether the elements fill their memory without holes and without overlap. No elements do, as torch sees it."""
    if 0 in sizes or is_surely_dense(sizes, strides):
        return True
    expected = 1
    pairs = [(stride, size) for stride, size in zip(strides, sizes, strict=True) if size != 1]
    for stride, size in sorted(pairs, key=hints_of):
        if stride != expected:
            return False
        expected *= size
    return True


def is_surely_dense(sizes: Sizes, strides: Sizes) -> bool:
    """The same, where algebra says so."""
    expected: Any = 1
    for stride, size in sorted(zip(strides, sizes, strict=True), key=hints_of):
        if not same(stride, expected):
            return False
        expected *= size
    return True


def channels_last_strides(sizes: Sequence[int]) -> Sizes:
    """The strides of torch.channels_last, or channels_last_3d, for sizes (batch, channels, ...)."""
    strides, step = [0] * len(sizes), 1
    for dimension in (1, *reversed(range(2, len(sizes))), 0):
        strides[dimension] = step
        step *= sizes[dimension]
    return tuple(strides)


def slice_bounds(start: Any, end: Any, size: Any) -> tuple[Any, Any]:
    """`slice(start, end).indices(size)`, for sizes that vary too."""
    first = 0 if start is None else start + size if start < 0 else start
    last = size if end is None else end + size if end < 0 else end
    return min(max(first, 0), size), min(max(last, 0), size)


def is_contiguous(sizes: Sizes, strides: Sizes) -> bool:
    if 0 in sizes:
        return True
    expected = 1
    for size, stride in zip(reversed(sizes), reversed(strides), strict=True):
        if not same(stride, expected) and size != 1 and stride != expected:
            return False
        expected *= size
    return True


def preserved_strides(value: Value) -> Sizes:
    """Those of a copy that keeps the order of memory: its own where it is dense, else TensorIterator's. Where dimensions lie within
    each other in order both are the same, and whether there are holes decides nothing."""
    if _lies_in_order(value):
        return contiguous_strides(value.sizes)
    return value.strides if is_dense(value.sizes, value.strides) else iterator_strides(value.sizes, [value])


def _lies_in_order(value: Value) -> bool:
    """Whether that is so for all sizes. A dimension of one element may have any stride."""
    return value.layout.varies and all(known(">=", size, 2) for size in value.sizes) and _is_in_order(value)


def _is_in_order(value: Value) -> bool:
    """Whether each dimension is known to lie within the one before."""
    within: Any = 1
    for size, stride in zip(reversed(value.sizes), reversed(value.strides), strict=True):
        if not known_by_now(">=", stride, within):
            return False
        within = stride * size
    return True


def iterator_strides(shape: Sizes, given: Sequence[Value | int | float]) -> Sizes:
    """The strides TensorIterator gives to a fresh output of `shape` computed from what it is given, numbers too."""
    operands = [operand for operand in given if isinstance(operand, Value)]
    if operands and _is_shape_of_all(shape, given):
        if all(o.layout.varies and _is_in_order(o) for o in operands):  # whether there are holes decides nothing
            return contiguous_strides(shape)
        if all(is_contiguous(o.sizes, o.strides) for o in operands):
            return contiguous_strides(shape)
        first = operands[0].strides
        if all(same(o.strides, first) for o in operands) and is_dense(shape, first):
            return first
    return _permuted_strides(shape, [expanded_strides(o, shape) for o in operands])


def as_promoted(given: Sequence[Any], dtype: torch.dtype | None = None) -> list[Any]:
    """Operands as TensorIterator sees them on the CPU: what has another type than is computed in is copied first, and a copy of
    elements that share places, or of memory with holes, is dense."""
    present = [operand for operand in given if operand is not None]
    dtype = dtype or promoted(present)
    return [
        Value(replace(operand.layout, strides=iterator_strides(operand.sizes, [operand])))
        if isinstance(operand, Value)
        and operand.dtype != dtype
        and operand.device.type == "cpu"
        and not is_dense(operand.sizes, operand.strides)
        else operand
        for operand in present
    ]


def _is_shape_of_all(shape: Sizes, given: Sequence[Value | int | float]) -> bool:
    """As TensorIterator finds it: a number has no dimensions."""
    return all(same(operand.sizes if isinstance(operand, Value) else (), shape) for operand in given)


def expanded_strides(operand: Value, shape: Sizes) -> Sizes:
    missing = len(shape) - operand.rank
    own = (
        0 if size == 1 and shape[missing + i] != 1 else s
        for i, (size, s) in enumerate(zip(operand.sizes, operand.strides, strict=True))
    )
    return (0,) * missing + tuple(own)


def _permuted_strides(shape: Sizes, all_strides: list[Sizes]) -> Sizes:
    order = list(reversed(range(len(shape))))
    for i in range(1, len(shape)):
        dimension = i
        for j in reversed(range(i)):
            comparison = _compare_dimensions(order[j], order[dimension], shape, all_strides)
            if comparison > 0:
                order[j], order[dimension] = order[dimension], order[j]
                dimension = j
            elif comparison < 0:
                break
    if order == list(reversed(range(len(shape)))):
        return contiguous_strides(shape)
    strides, step = [0] * len(shape), 1
    for dimension in order:
        strides[dimension] = step
        step *= shape[dimension]
    return tuple(strides)


def _compare_dimensions(a: int, b: int, shape: Sizes, all_strides: list[Sizes]) -> int:
    """Positive where dimension `a` should lie further out than `b`; 0 where the operands do not say."""
    for strides in all_strides:
        if strides[a] == 0 or strides[b] == 0 or (strides[a] == strides[b] and shape[a] <= shape[b]):
            continue
        return 1 if strides[a] >= strides[b] else -1
    return 0


@functools.cache
def _category(dtype: torch.dtype) -> int:
    if dtype is torch.bool:
        return 0
    return 3 if dtype.is_complex else 2 if dtype.is_floating_point else 1


_NUMBER_DTYPES = {bool: torch.bool, int: torch.int64}
"""Of the other numbers the default is asked."""


def promoted(operands: Sequence[Any]) -> torch.dtype:
    """The common dtype of values and Python numbers: dimensioned tensors, then 0-dim ones, then numbers."""
    dtypes: list[torch.dtype | None] = [None, None, None]
    for operand in operands:
        if isinstance(operand, Value):
            rank, dtype = (0 if operand.sizes else 1), operand.dtype
        else:
            kind = operand.kind if isinstance(operand, Size) else type(operand)
            rank, dtype = 2, _NUMBER_DTYPES.get(kind) or torch.get_default_dtype()
            dtype = complex_beside(dtype) if kind is complex else dtype
        present = dtypes[rank]
        dtypes[rank] = dtype if present is None else _common(present, dtype)
    return functools.reduce(_combine, dtypes[1:], dtypes[0])  # type: ignore[arg-type, return-value]


def _combine(higher: torch.dtype | None, lower: torch.dtype | None) -> torch.dtype | None:
    if higher is None or lower is None:
        return higher if lower is None else lower
    if higher.is_floating_point and lower.is_complex:
        return higher.to_complex()
    return _common(higher, lower) if _category(lower) > _category(higher) else higher


@functools.cache
def _common(first: torch.dtype, second: torch.dtype) -> torch.dtype:
    with torch._C._DisableTorchDispatch():  # a recording would take the question for an operator of the program's
        return torch.promote_types(first, second)


def floating(dtype: torch.dtype) -> torch.dtype:
    """What a function of real numbers computes in, when given `dtype`."""
    return dtype if _category(dtype) >= 2 else torch.get_default_dtype()


def wrap_dimension(dimension: int, rank: int) -> int:
    rank = max(rank, 1)
    if not -rank <= dimension < rank:
        raise ShapeMismatch(f"dimension {dimension} is out of range for {rank} dimensions")
    return dimension % rank


def wrap_dimensions(dimensions: Any, rank: int) -> tuple[int, ...]:
    """The reduced dimensions in order; None and an empty list mean all of them."""
    if isinstance(dimensions, int):
        dimensions = [dimensions]
    if not dimensions:
        return tuple(range(rank))
    return tuple(sorted(wrap_dimension(d, rank) for d in dimensions)) if rank else ()


def reduced_sizes(sizes: Sizes, dimensions: Sequence[int], keep: int) -> Sizes:
    """`sizes` with `dimensions` gone, or of size 1 where `keep` is true."""
    if keep:
        return tuple(1 if i in dimensions else size for i, size in enumerate(sizes))
    return tuple(size for i, size in enumerate(sizes) if i not in dimensions)


def fresh(sizes: Sequence[int], dtype: torch.dtype, device: torch.device) -> Layout:
    sizes = tuple(sizes)
    return Layout(sizes, contiguous_strides(sizes), dtype, device)


def common_device(operands: Sequence[Any]) -> torch.device:
    """Where an operator of these operands runs: 0-dim CPU tensors go along with the others."""
    device = None
    for operand in operands:
        if isinstance(operand, Value):
            if operand.sizes or operand.device.type != "cpu":
                return operand.device
            device = device or operand.device
    return device or torch.device("cpu")


def viewed_strides(sizes: Sizes, strides: Sizes, wanted: Sizes) -> Sizes | None:
    """The strides of a view of `wanted` sizes without a copy; None where there is no such view."""
    if 0 in sizes:
        return strides if same(sizes, wanted) else contiguous_strides(wanted)
    if same(strides, contiguous_strides(sizes)) and prod(sizes) == prod(wanted):
        return contiguous_strides(wanted)  # whichever of the sizes are 1
    result = [0] * len(wanted)
    position = len(wanted) - 1
    chunk_step = strides[-1] if strides else 1
    tensor_count, view_count = 1, 1
    for dimension in reversed(range(len(sizes))):
        tensor_count *= sizes[dimension]
        within = tensor_count * chunk_step
        ends_chunk = dimension == 0 or not (
            same(strides[dimension - 1], within) or sizes[dimension - 1] == 1 or strides[dimension - 1] == within
        )
        if not ends_chunk:
            continue
        while position >= 0 and (view_count < tensor_count or wanted[position] == 1):
            result[position] = view_count * chunk_step
            view_count *= wanted[position]
            position -= 1
        if view_count != tensor_count:
            return None
        if dimension > 0:
            chunk_step, tensor_count, view_count = strides[dimension - 1], 1, 1
    if not sizes:
        return (1,) * len(wanted)
    return tuple(result) if position == -1 else None


def inferred_sizes(sizes: Sequence[int], element_count: int) -> Sizes:
    """`sizes` with its -1 replaced."""
    if -1 not in sizes:
        return tuple(sizes)
    known = 1
    for size in sizes:
        known *= 1 if size == -1 else size
    return tuple(element_count // max(known, 1) if size == -1 else size for size in sizes)


def repeats_elements(sizes: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether elements may share a place in memory. Views are told by the places they show, which then do not tell which
    elements a gradient belongs to; and a write to one element is one to others."""
    reach = 0
    for stride, size in sorted(zip(strides, sizes, strict=True)):
        if size > 1:
            if stride <= reach:
                return True
            reach += (size - 1) * stride
    return False
