"""NumPy's functions that a few words of torch's say, each with NumPy's parameters as far as it takes them.

    np.vstack([a, b])            torch.vstack of parts in the type that NumPy gives
    np.median(a, axis=0)         the mean of the two elements in the middle, NaN where there is one
    np.split(a, 2)               parts of the same memory

The operands are the parameters before `/`. NumPy is asked what the call gives (`numpy_arrays`), here also whether in memory of its own:
where the equivalent's result is of another kind the call is left to NumPy.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional

from dynascope.capture.calls import equivalents
from dynascope.capture.calls.arguments import Arguments, Keywords
from dynascope.capture.calls.numpy_arrays import as_numpy, asked, converted, foreign, wrapped
from dynascope.capture.calls.numpy_of_tensors import with_arrays
from dynascope.capture.numpy_numbers import IS_THERE, numpy
from dynascope.capture.values import ArrayValue, ListValue, TensorValue, TupleValue, Value, constant_of

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine


def by_equivalent(machine: Machine, function: Any, arguments: Arguments, keywords: Keywords) -> Value | None:
    """What the function gives of these arguments; None where it has no equivalent."""
    equivalent = EQUIVALENTS.get(function)
    if equivalent is None:
        return None
    operands = _operand_count(machine, equivalent, arguments, keywords)
    if operands is None:
        raise foreign(machine)
    given = [_with_arrays_inside(machine, each) for each in arguments]
    told = [_told(machine, function, each) for each in given]
    like = asked(machine, function, *told, **{name: as_numpy(machine, value) for name, value in keywords.items()})
    dtype = _operand_type(machine, function, like, told[:operands])
    tensors = [_as_tensors(machine, each, dtype) for each in given[:operands]]
    found = machine.finish(equivalents.enter(machine, equivalent, [*tensors, *given[operands:]], keywords))
    return _as_given(machine, found, like, [*_arrays_in(told[:operands])], [*_tensors_in(machine, tensors)])


def _operand_count(machine: Machine, equivalent: Callable[..., Any], arguments: Arguments, keywords: Keywords) -> int | None:
    """How many of the arguments are operands; None where the equivalent does not take these arguments."""
    signature = inspect.signature(equivalent)
    try:
        bound = signature.bind(*arguments, **keywords).arguments
    except TypeError:
        return None
    told = {name: constant_of(machine.realize(bound[name])) for name in ONLY.keys() & bound.keys()}
    if any(value != ONLY[name] for name, value in told.items()):
        return None
    kinds = [parameter.kind for parameter in signature.parameters.values()]
    return len(arguments) if inspect.Parameter.VAR_POSITIONAL in kinds else kinds.count(inspect.Parameter.POSITIONAL_ONLY)


def _with_arrays_inside(machine: Machine, value: Value) -> Value:
    """Of a row that NumPy joins, tensors are taken for their arrays."""
    value = machine.realize(value)
    return with_arrays(machine, value) if isinstance(value, (ListValue, TupleValue)) else value


def _told(machine: Machine, function: Any, value: Value) -> Any:
    made = as_numpy(machine, value)
    if function in OF_MATRICES and isinstance(made, numpy.ndarray) and made.ndim > 1 and made.shape[-1] == made.shape[-2]:
        made[...] = numpy.eye(made.shape[-1], dtype=made.dtype)  # a matrix of ones has no inverse
    return made


def _operand_type(machine: Machine, function: Any, like: Any, told: list[Any]) -> Any:
    """The type that operands are converted to; None where each stays as it is."""
    if function in OF_EACH_TYPE:
        return None
    if function in OF_COMMON_FLOAT:
        return asked(machine, numpy.result_type, *told, 1.0)
    parts = like if isinstance(like, (list, tuple)) else (like,)
    return parts[0].dtype if isinstance(parts[0], (numpy.ndarray, numpy.generic)) else None


def _as_tensors(machine: Machine, value: Value, dtype: Any) -> Value:
    if isinstance(value, (ListValue, TupleValue)):
        parts = [_as_tensors(machine, machine.realize(item), dtype) for item in value.items]
        return ListValue(parts) if isinstance(value, ListValue) else TupleValue(tuple(parts))
    if isinstance(constant_of(value), str):
        return value
    if not isinstance(value, ArrayValue) and dtype is None:
        raise foreign(machine)
    if dtype is not None and isinstance(value, ArrayValue) and not numpy.can_cast(_dtype(machine, value), dtype, "same_kind"):
        raise foreign(machine, "it converts what it is given")
    return value.tensor if dtype is None and isinstance(value, ArrayValue) else converted(machine, value, dtype)


def _dtype(machine: Machine, value: Value) -> Any:
    return as_numpy(machine, value).dtype


def _as_given(machine: Machine, found: Value, like: Any, arrays: list[Any], tensors: list[torch.Tensor]) -> Value:
    """The result, in containers of NumPy's kind and on memory of the operands where NumPy's is."""
    if isinstance(like, (list, tuple)):
        if not isinstance(found, (ListValue, TupleValue)) or len(found.items) != len(like) or type(like) not in (list, tuple):
            raise foreign(machine)
        parts = [_as_given(machine, machine.realize(one), other, arrays, tensors) for one, other in zip(found.items, like, strict=True)]
        return ListValue(parts) if isinstance(like, list) else TupleValue(tuple(parts))
    made = wrapped(machine, found, like)
    shares = isinstance(like, numpy.ndarray) and any(numpy.may_share_memory(like, each) for each in arrays)
    memory = made.tensor.example.untyped_storage()._cdata
    if shares != any(memory == each.untyped_storage()._cdata for each in tensors):
        raise foreign(machine)
    return made


def _arrays_in(told: Any) -> list[Any]:
    if isinstance(told, (list, tuple)):
        return [array for each in told for array in _arrays_in(each)]
    return [told] if isinstance(told, numpy.ndarray) else []


def _tensors_in(machine: Machine, values: list[Value]) -> list[torch.Tensor]:
    found: list[torch.Tensor] = []
    for value in map(machine.realize, values):
        if isinstance(value, (ListValue, TupleValue)):
            found += _tensors_in(machine, list(value.items))
        elif isinstance(value, TensorValue):
            found.append(value.example)
    return found


# In torch's words


def stacked_in_rows(tup, /):
    return torch.vstack(tup)


def stacked_in_line(tup, /):
    return torch.hstack(tup)


def stacked_in_depth(tup, /):
    return torch.dstack(tup)


def stacked_as_columns(tup, /):
    return torch.column_stack(tup)


def appended(arr, values, /, axis=None):
    return torch.cat((arr.reshape(-1), values.reshape(-1))) if axis is None else torch.cat((arr, values), axis)


def tiled(A, /, reps):
    return torch.tile(A, reps if isinstance(reps, (tuple, list)) else (reps,))


def rolled(a, /, shift, axis=None):
    return torch.roll(a, shift) if axis is None else torch.roll(a, shift, axis)


def upper(m, /, k=0):
    return torch.triu(m, k)


def lower(m, /, k=0):
    return torch.tril(m, k)


def diagonal_matrix(v, /, k=0):
    return torch.diag(v, k)


def sum_of_diagonal(a, /):
    return torch.trace(a)


def outer_product(a, b, /):
    return torch.outer(a.reshape(-1), b.reshape(-1))


def kronecker_product(a, b, /):
    return torch.kron(a, b)


def inner_product(a, b, /):
    return torch.inner(a, b)


def contracted(a, b, /, axes=2):
    return torch.tensordot(a, b, axes)


def padded(array, /, pad_width, mode="constant", constant_values=0):
    if isinstance(pad_width, int):
        pad_width = (pad_width, pad_width)
    if isinstance(pad_width[0], int):
        pad_width = (pad_width,) * array.dim()
    widths = []
    for before, after in reversed(pad_width):
        widths += [before, after]
    return functional.pad(array, widths, "constant", constant_values)


def in_order(a, /, axis=-1):
    return torch.sort(a.reshape(-1) if axis is None else a, -1 if axis is None else axis).values


def places_in_order(a, /, axis=-1, *, kind):
    return torch.argsort(a.reshape(-1) if axis is None else a, dim=-1 if axis is None else axis, stable=True)


def differences(a, /, n=1, axis=-1):
    return torch.diff(a, n, axis)


def range_of_values(a, /, axis=None):
    return torch.amax(a) - torch.amin(a) if axis is None else torch.amax(a, axis) - torch.amin(a, axis)


def middle(a, /, axis=None):
    along, ordered = -1 if axis is None else axis, in_order(a, axis)
    count = ordered.shape[along]
    end = ordered.select(along, count - 1)
    return torch.where(torch.isnan(end), end, ordered.narrow(along, (count - 1) // 2, 2 - count % 2).mean(along))


def hundredth(a, /, q, axis=None):
    return fraction(a, [each / 100 for each in q] if isinstance(q, (list, tuple)) else q / 100, axis)


def fraction(a, /, q, axis=None):
    return torch.stack([quantile(a, each, axis) for each in q]) if isinstance(q, (list, tuple)) else quantile(a, q, axis)


def quantile(a, fraction, axis):
    """Between the two elements next to it in order; NaN, the last of all, where there is one."""
    along, ordered = -1 if axis is None else axis, in_order(a, axis)
    last = ordered.shape[along] - 1
    place = fraction * last
    below = int(place)
    low, high, end = ordered.select(along, below), ordered.select(along, min(below + 1, last)), ordered.select(along, last)
    found = torch.lerp(low, high, place - below)
    return torch.where(torch.isnan(end), end, found)


def mean_of(a, /, axis=None):
    return torch.mean(a) if axis is None else torch.mean(a, axis)


def near(a, b, /, rtol=1e-05, atol=1e-08, equal_nan=False):
    return torch.isclose(a, b, rtol, atol, equal_nan)


def finite(x, /, copy=True, nan=0.0, posinf=None, neginf=None):
    return torch.nan_to_num(x, nan, posinf, neginf)


def grids(*xi, indexing="xy"):
    return tuple([grid.clone(memory_format=torch.contiguous_format) for grid in torch.meshgrid(*xi, indexing=indexing)])


def parts(ary, /, indices_or_sections, axis=0):
    if isinstance(indices_or_sections, int) and ary.shape[axis] % indices_or_sections:
        raise ValueError("array split does not result in an equal division")
    return list(torch.tensor_split(ary, indices_or_sections, axis))


def unequal_parts(ary, /, indices_or_sections, axis=0):
    return list(torch.tensor_split(ary, indices_or_sections, axis))


def moved(a, /, source, destination):
    return torch.movedim(a, source, destination)


def filled_alike(a, /, fill_value):
    return torch.full_like(a, fill_value)


def einstein_sum(*operands):
    return torch.einsum(*operands)


def norm(x, /, ord=None, axis=None, keepdims=False):
    return torch.linalg.norm(x, ord, axis, keepdims)


def inverse(a, /):
    return torch.linalg.inv(a).contiguous()


def determinant(a, /):
    return torch.linalg.det(a)


def solution(a, b, /):
    return torch.linalg.solve(a, b).contiguous()


def cholesky_factor(a, /):
    return torch.linalg.cholesky(a).contiguous()


EQUIVALENTS: dict[Any, Callable[..., Any]] = {}
ONLY = {"kind": "stable", "mode": "constant"}
"""Of these parameters one value. Of another order than the stable one NumPy leaves open which of two equal elements comes first."""
OF_EACH_TYPE: frozenset[Any] = frozenset()
"""Whose operands stay as they are: the result is of the type of one, or of none."""
OF_COMMON_FLOAT: frozenset[Any] = frozenset()
OF_MATRICES: frozenset[Any] = frozenset()
"""Which refuse some matrices."""

if IS_THERE:
    _BY_NAME: dict[str, Callable[..., Any]] = {
        "vstack": stacked_in_rows, "hstack": stacked_in_line, "dstack": stacked_in_depth, "column_stack": stacked_as_columns,
        "append": appended, "tile": tiled, "roll": rolled, "triu": upper, "tril": lower, "diag": diagonal_matrix,
        "trace": sum_of_diagonal, "outer": outer_product, "kron": kronecker_product, "inner": inner_product,
        "tensordot": contracted, "pad": padded, "sort": in_order, "argsort": places_in_order, "diff": differences,
        "ptp": range_of_values, "median": middle, "percentile": hundredth, "quantile": fraction, "average": mean_of,
        "isclose": near, "nan_to_num": finite, "meshgrid": grids, "split": parts, "array_split": unequal_parts,
        "moveaxis": moved, "full_like": filled_alike, "einsum": einstein_sum,
    }  # fmt: skip
    EQUIVALENTS |= {getattr(numpy, name): equivalent for name, equivalent in _BY_NAME.items()}
    OF_EACH_TYPE = frozenset(
        (numpy.diff, numpy.argsort, numpy.meshgrid, numpy.split, numpy.array_split, numpy.moveaxis, numpy.full_like, numpy.nan_to_num)
    )
    OF_COMMON_FLOAT = frozenset((numpy.isclose,))
    _OF_MATRICES = {"inv": inverse, "det": determinant, "solve": solution, "cholesky": cholesky_factor, "norm": norm}
    EQUIVALENTS |= {getattr(numpy.linalg, name): equivalent for name, equivalent in _OF_MATRICES.items()}
    OF_MATRICES = frozenset(getattr(numpy.linalg, name) for name in _OF_MATRICES)
