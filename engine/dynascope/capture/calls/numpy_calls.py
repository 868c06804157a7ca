"""NumPy's functions and methods of arrays: a row for each says which of torch's does the same (see `numpy_arrays`).

    np.mean(a, axis=0), a.mean(0)        torch.mean in the type that NumPy gives, over these dimensions
    np.stack([a, b])                     operands of one type, torch.stack
"""

from __future__ import annotations

from collections.abc import Callable
from types import NoneType
from typing import TYPE_CHECKING, Any

import torch

from dynascope.capture.calls import known_tensors, late_numbers
from dynascope.capture.calls.arguments import Arguments, Keywords, argument, is_none
from dynascope.capture.calls.number_calls import number_call
from dynascope.capture.calls.numpy_arrays import (
    UNIVERSAL,
    as_numpy,
    asked,
    check_writable,
    converted,
    dtype_of,
    foreign,
    kind_of,
    of_tensor,
    permuted,
    to_tensor,
    twin,
    universal,
    wrapped,
)
from dynascope.capture.calls.numpy_arrays import item as item_of
from dynascope.capture.calls.numpy_equivalents import by_equivalent
from dynascope.capture.calls.numpy_interpolation import interpolated
from dynascope.capture.calls.numpy_of_tensors import with_arrays
from dynascope.capture.calls.operands import fixed
from dynascope.capture.calls.registry import meaning
from dynascope.capture.calls.tensors import apply_function, apply_method
from dynascope.capture.calls.tensors_of_numbers import from_parts
from dynascope.capture.metadata import CPU
from dynascope.capture.numpy_numbers import IS_THERE, TYPES, is_universal, numpy
from dynascope.capture.values import (
    NONE,
    ArrayValue,
    ConstantValue,
    ListValue,
    SliceValue,
    SymbolicNumber,
    TensorValue,
    TupleValue,
    Value,
)

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine

Row = Callable[["Machine", Any, Arguments, Keywords], Value]


def call(machine: Machine, function: Any, arguments: Arguments, keywords: Keywords) -> Value:
    """Of a function that is told an array."""
    if function in UNIVERSAL:
        return universal(machine, function, arguments, keywords)
    row = ROWS.get(function)
    if row is not None:
        return row(machine, function, arguments, keywords)
    for found in (of_known, by_equivalent):
        if (value := found(machine, function, arguments, keywords)) is not None:
            return value
    raise foreign(machine)


def answer(machine: Machine, function: Any, arguments: Arguments, keywords: Keywords) -> Any:
    known = {name: as_numpy(machine, value) for name, value in keywords.items()}
    return asked(machine, function, *[as_numpy(machine, each) for each in arguments], **known)


def array_with_strides(machine: Machine, arguments: Arguments) -> ArrayValue:
    """One whose views are the tensor's."""
    array = first_array(machine, arguments)
    if array.turned:
        raise foreign(machine, "it is a view of an array that goes backwards")
    return array


def first_array(machine: Machine, arguments: Arguments) -> ArrayValue:
    array = machine.realize(arguments[0]) if arguments else None
    if not isinstance(array, ArrayValue):
        raise foreign(machine)
    return array


def of_known(machine: Machine, function: Any, arguments: Arguments, keywords: Keywords) -> Value | None:
    """What NumPy makes of arrays whose elements are the same at each call (`known_tensors`), in memory of its own; None where
    they are not, or where it cannot be part of a graph."""
    return computed(machine, function, arguments, keywords) if function in OF_KNOWN else None


def of_known_numbers(machine: Machine, function: Any, arguments: Arguments, keywords: Keywords) -> Value | None:
    """What NumPy makes of rows of numbers (`np.max([t.shape for t in tensors], 0)`), as `of_known`."""
    of_rows = is_universal(function) and any(isinstance(machine.realize(each), (ListValue, TupleValue)) for each in arguments)
    is_pure = function in OF_KNOWN or function in OF_NUMBERS or of_rows
    return computed(machine, function, arguments, keywords) if is_pure else None


def computed(machine: Machine, function: Any, arguments: Arguments, keywords: Keywords) -> Value | None:
    given = [known_operand(machine, each) for each in arguments]
    named = {name: known_operand(machine, each) for name, each in keywords.items()}
    if any(each is None for each in (*given, *named.values())):
        return None
    told = [each() for each in given if each is not None]
    made = asked(machine, function, *told, **{name: each() for name, each in named.items() if each is not None})
    return of_known_result(machine, made, told)


def of_known_result(machine: Machine, made: Any, told: list[Any]) -> Value | None:
    """A number, an array in memory of its own, or a list or tuple of such."""
    if type(made) in TYPES:
        return ConstantValue(made)
    if type(made) in (list, tuple):
        parts = [of_known_result(machine, each, [*told, *made[:at]]) for at, each in enumerate(made)]
        if any(part is None for part in parts):
            return None
        return ListValue(parts) if type(made) is list else TupleValue(tuple(parts))
    if not isinstance(made, numpy.ndarray) or any(
        isinstance(each, numpy.ndarray) and numpy.may_share_memory(made, each) for each in told
    ):
        return None
    return of_known_contents(machine, made)


def of_known_contents(machine: Machine, made: numpy.ndarray) -> Value | None:
    """An array of these elements, new at each call."""
    if dtype_of(made.dtype) is None or not made.flags.c_contiguous:
        return None
    found = contents(made)
    if found is None:
        return None
    options = {"dtype": ConstantValue(dtype_of(made.dtype)), "device": ConstantValue(CPU)}
    return wrapped(machine, apply_function(machine, found[0], list(map(as_value, found[1])), options), made)


def known_operand(machine: Machine, value: Value) -> Callable[[], Any] | None:
    """How to make the operand, with its elements; None where they are not known."""
    value = machine.realize(value)
    if isinstance(value, (ListValue, TupleValue)):
        parts = [known_operand(machine, item) for item in value.items]
        if any(part is None for part in parts):
            return None
        kind = list if isinstance(value, ListValue) else tuple
        return lambda: kind(part() for part in parts if part is not None)
    if isinstance(value, TensorValue):
        return None
    if not isinstance(value, ArrayValue):
        known = as_numpy(machine, value) if not isinstance(value, SymbolicNumber) else None
        return None if isinstance(value, SymbolicNumber) else lambda: known
    twin(value)  # an array that goes backwards is to be as it was
    elements = known_tensors.elements_of(machine, value.tensor)
    if elements is None:
        return None
    return lambda: elements.numpy()[()] if value.is_number else elements.numpy()


# Of one array


def reduction(function: Callable[..., Any], **options: Any) -> Row:
    """Over an axis, several, or all, in the type of what NumPy gives."""

    def reduced(machine: Machine, called: Any, arguments: Arguments, keywords: Keywords) -> Value:
        array, like = first_array(machine, arguments), answer(machine, called, arguments, keywords)
        freedom = {"ddof"} if "correction" in options else set()
        if len(arguments) > 2 or not keywords.keys() <= {"axis", "keepdims"} | freedom or array.is_number:
            raise foreign(machine)
        axis, keeps = argument(arguments, keywords, 1, "axis"), keywords.get("keepdims", ConstantValue(False))
        operand = converted(machine, array, like.dtype if function in IN_TYPE_OF_RESULT else twin(array).dtype)
        named = {"keepdim": keeps, **{name: keywords.get("ddof", ConstantValue(value)) for name, value in options.items()}}
        rank = array.tensor.example.dim()
        if not is_none(axis):
            named["dim"] = axis
        elif function in OVER_ONE:
            if keeps.value if isinstance(keeps, ConstantValue) else True:
                raise foreign(machine)
            return wrapped(machine, apply_function(machine, function, [operand], {}), like)
        else:
            named["dim"] = TupleValue(tuple(map(ConstantValue, range(rank))))
        if function in OVER_ONE and machine.realize(named["dim"]).python_type is not int:
            raise foreign(machine)
        return wrapped(machine, apply_function(machine, function, [operand], named), like)

    return reduced


IN_TYPE_OF_RESULT = (torch.sum, torch.mean, torch.prod, torch.std, torch.var, torch.cumsum, torch.cumprod)
OVER_ONE = (torch.prod, torch.argmax, torch.argmin)


def along(function: Callable[..., Any]) -> Row:
    """Cumulative: along an axis, or along all elements."""

    def row(machine: Machine, called: Any, arguments: Arguments, keywords: Keywords) -> Value:
        array, like = first_array(machine, arguments), answer(machine, called, arguments, keywords)
        if len(arguments) > 2 or not keywords.keys() <= {"axis"} or array.is_number:
            raise foreign(machine)
        axis, operand = argument(arguments, keywords, 1, "axis"), converted(machine, array, like.dtype)
        if is_none(axis):
            operand, axis = apply_method(machine, torch.Tensor.reshape, [operand, ConstantValue(-1)], {}), ConstantValue(0)
        return wrapped(machine, apply_function(machine, function, [operand, axis], {}), like)

    return row


def numbers_of(machine: Machine, arguments: Arguments) -> list[Value]:
    """`a.reshape(2, 3)` and `a.reshape((2, 3))`."""
    given = machine.realize(arguments[0]) if len(arguments) == 1 else None
    return list(given.items) if isinstance(given, (ListValue, TupleValue)) else arguments


def reshape(machine: Machine, called: Any, arguments: Arguments, keywords: Keywords) -> Value:
    array, like = array_with_strides(machine, arguments), answer(machine, called, arguments, keywords)
    if keywords or array.is_number:
        raise foreign(machine)
    shape = TupleValue(tuple(numbers_of(machine, arguments[1:])))
    found = apply_method(machine, torch.Tensor.reshape, [array.tensor, shape], {})
    return wrapped(machine, found, like)


def transpose(machine: Machine, called: Any, arguments: Arguments, keywords: Keywords) -> Value:
    array, like = array_with_strides(machine, arguments), answer(machine, called, arguments, keywords)
    rank = array.tensor.example.dim()
    order = [machine.object_of(each) for each in numbers_of(machine, arguments[1:])]
    if keywords or None in order:
        raise foreign(machine)
    return wrapped(machine, permuted(machine, array, tuple(order) or tuple(range(rank))[::-1]), like)


def same_method(method: Callable[..., Any], most: int) -> Row:
    """torch's method of the same meaning, which takes the same numbers."""

    def row(machine: Machine, called: Any, arguments: Arguments, keywords: Keywords) -> Value:
        array, like = array_with_strides(machine, arguments), answer(machine, called, arguments, keywords)
        if not keywords.keys() <= {"axis"} or len(arguments) + len(keywords) - 1 > most or array.is_number:
            raise foreign(machine)
        found = apply_method(machine, method, [array.tensor, *arguments[1:], *keywords.values()], {})
        return wrapped(machine, found, like)

    return row


def ravel(machine: Machine, called: Any, arguments: Arguments, keywords: Keywords) -> Value:
    array, like = array_with_strides(machine, arguments), answer(machine, called, arguments, keywords)
    if keywords or len(arguments) > 1 or array.is_number:
        raise foreign(machine)
    return wrapped(machine, apply_method(machine, torch.Tensor.reshape, [array.tensor, ConstantValue(-1)], {}), like)


def flatten(machine: Machine, called: Any, arguments: Arguments, keywords: Keywords) -> Value:
    array, like = first_array(machine, arguments), answer(machine, called, arguments, keywords)
    if keywords or len(arguments) > 1:
        raise foreign(machine)
    dense = apply_method(machine, torch.Tensor.clone, [array.tensor], {"memory_format": ConstantValue(torch.contiguous_format)})
    return wrapped(machine, apply_method(machine, torch.Tensor.view, [dense, ConstantValue(-1)], {}), like)


def copied(machine: Machine, called: Any, arguments: Arguments, keywords: Keywords) -> Value:
    array, like = first_array(machine, arguments), answer(machine, called, arguments, keywords)
    if keywords or len(arguments) > 1:
        raise foreign(machine)
    kept = torch.preserve_format if like.strides == twin(array).strides else torch.contiguous_format
    made = apply_method(machine, torch.Tensor.clone, [array.tensor], {"memory_format": ConstantValue(kept)})
    return wrapped(machine, made, like)


def astype(machine: Machine, called: Any, arguments: Arguments, keywords: Keywords) -> Value:
    array, like = first_array(machine, arguments), answer(machine, called, arguments, keywords)
    if keywords or len(arguments) != 2 or dtype_of(like.dtype) is None:
        raise foreign(machine)
    options = {"dtype": ConstantValue(dtype_of(like.dtype)), "copy": ConstantValue(True)}
    return wrapped(machine, apply_method(machine, torch.Tensor.to, [array.tensor], options), like)


def rounded(machine: Machine, called: Any, arguments: Arguments, keywords: Keywords) -> Value:
    """To whole numbers, in memory of its own."""
    array, like = first_array(machine, arguments), answer(machine, called, arguments, keywords)
    if keywords or len(arguments) > 1 or like.dtype != twin(array).dtype or like.dtype.kind not in "iuf":
        raise foreign(machine)
    return wrapped(machine, apply_function(machine, torch.round, [array.tensor], {}), like)


def clip(machine: Machine, called: Any, arguments: Arguments, keywords: Keywords) -> Value:
    array, like = first_array(machine, arguments), answer(machine, called, arguments, keywords)
    if not keywords.keys() <= {"min", "max", "a_min", "a_max"} or len(arguments) > 3 or like.dtype != twin(array).dtype:
        raise foreign(machine)
    given = [argument(arguments, keywords, at, name, keywords.get(f"a_{name}", NONE)) for at, name in ((1, "min"), (2, "max"))]
    bounds = [each if is_none(machine.realize(each)) else converted(machine, each, like.dtype) for each in given]
    return wrapped(machine, apply_function(machine, torch.clamp, [array.tensor, *bounds], {}), like)


def dot(machine: Machine, called: Any, arguments: Arguments, keywords: Keywords) -> Value:
    ranks = [value.tensor.example.dim() for each in arguments if isinstance(value := machine.realize(each), ArrayValue)]
    if len(arguments) != 2 or ranks not in ([1, 1], [2, 1], [2, 2]):
        raise foreign(machine)
    return universal(machine, numpy.matmul, arguments, keywords)


def broadcast(machine: Machine, called: Any, arguments: Arguments, keywords: Keywords) -> Value:
    """A view that nobody may write to: one element stands at several places."""
    array, like = array_with_strides(machine, arguments), answer(machine, called, arguments, keywords)
    if keywords or len(arguments) != 2:
        raise foreign(machine)
    shape = machine.realize(arguments[1])
    shape = shape if isinstance(shape, (ListValue, TupleValue)) else TupleValue((shape,))
    return wrapped(machine, apply_function(machine, torch.broadcast_to, [array.tensor, shape], {}), like)


def taken_along(machine: Machine, called: Any, arguments: Arguments, keywords: Keywords) -> Value:
    """Places that count from the end are none of torch's: the operator raises, and Python runs the call."""
    array, like = first_array(machine, arguments), answer(machine, called, arguments, keywords)
    places, axis = machine.realize(argument(arguments, keywords, 1, "indices")), argument(arguments, keywords, 2, "axis")
    if array.is_number or not isinstance(places, ArrayValue) or is_none(machine.realize(axis)):
        raise foreign(machine)
    index = converted(machine, places, numpy.dtype(numpy.int64))
    return wrapped(machine, apply_function(machine, torch.take_along_dim, [array.tensor, index, axis], {}), like)


def put_along(machine: Machine, called: Any, arguments: Arguments, keywords: Keywords) -> Value:
    array, places, item = (machine.realize(argument(arguments, keywords, at, name)) for at, name in enumerate(("arr", "indices", "values")))
    axis = machine.realize(argument(arguments, keywords, 3, "axis"))
    if not isinstance(array, ArrayValue) or not isinstance(places, ArrayValue) or array.is_number or is_none(axis):
        raise foreign(machine)
    check_writable(machine, array)
    at = machine.object_of(axis)
    shapes = [list(machine.extents.sizes(each.tensor)) for each in (array, places)]
    given = twin(array)
    if given.ndim != twin(places).ndim or not given.ndim:
        raise foreign(machine)
    others = [[size for dim, size in enumerate(shape) if dim != at % len(shape)] for shape in shapes]
    is_number = isinstance(item, ConstantValue) and type(item.value) in (bool, int, float)
    if others[0] != others[1] or not is_number or not given.size or not twin(places).size:
        raise foreign(machine, "it spreads what it writes")
    asked(machine, called, given, numpy.zeros_like(twin(places)), as_numpy(machine, item), at)
    written = ConstantValue(given.flat[0].item())  # converted, as every assignment of NumPy's does
    index = converted(machine, places, numpy.dtype(numpy.int64))
    apply_method(machine, torch.Tensor.scatter_, [array.tensor, axis, index, written], {})
    return NONE


def item(machine: Machine, called: Any, arguments: Arguments, keywords: Keywords) -> Value:
    array = first_array(machine, arguments)
    found = late_numbers.number_of(machine, array.tensor) if len(arguments) == 1 and not keywords else None
    if found is None:
        raise foreign(machine, "it takes a Python value out of an array")
    return found


def listed(machine: Machine, called: Any, arguments: Arguments, keywords: Keywords) -> Value:
    """What `array.tolist()` gives, as of a tensor."""
    array = first_array(machine, arguments)
    found = late_numbers.list_of(machine, array.tensor) if len(arguments) == 1 and not keywords else None
    if found is None:
        raise foreign(machine, "it takes Python values out of an array")
    return found


def itself(machine: Machine, called: Any, arguments: Arguments, keywords: Keywords) -> Value:
    array = array_with_strides(machine, arguments)
    if keywords or len(arguments) > 1 or array.is_number:
        raise foreign(machine)
    return array


def flipped(machine: Machine, called: Any, arguments: Arguments, keywords: Keywords) -> Value:
    """A view that goes backwards, along all dimensions where none is said."""
    array, axis = first_array(machine, arguments), argument(arguments, keywords, 1, "axis", NONE)
    rank, along = array.tensor.example.dim(), machine.object_of(axis) if not is_none(machine.realize(axis)) else None
    if len(arguments) > 2 or not keywords.keys() <= {"axis"} or array.is_number or not rank or not isinstance(along, (int, NoneType)):
        raise foreign(machine)
    if along is not None and not -rank <= along < rank:
        raise foreign(machine)
    backwards, whole = SliceValue((NONE, NONE, ConstantValue(-1))), SliceValue((NONE, NONE, NONE))
    parts = (backwards if along is None or at == along % rank else whole for at in range(rank))
    return item_of(machine, array, TupleValue(tuple(parts)))


def repeated(machine: Machine, called: Any, arguments: Arguments, keywords: Keywords) -> Value:
    """Each element so many times."""
    array, like = first_array(machine, arguments), answer(machine, called, arguments, keywords)
    if len(arguments) > 3 or not keywords.keys() <= {"repeats", "axis"} or array.is_number or array.turned:
        raise foreign(machine)
    times, axis = argument(arguments, keywords, 1, "repeats"), argument(arguments, keywords, 2, "axis", NONE)
    if machine.realize(times).python_type is not int:
        raise foreign(machine)
    along = {} if is_none(machine.realize(axis)) else {"dim": axis}
    return wrapped(machine, apply_function(machine, torch.repeat_interleave, [array.tensor, times], along), like)


# Of several arrays


def joined(function: Callable[..., Any]) -> Row:
    def row(machine: Machine, called: Any, arguments: Arguments, keywords: Keywords) -> Value:
        arguments = [with_arrays(machine, each) for each in arguments]
        like = answer(machine, called, arguments, keywords)
        given, axis = machine.realize(arguments[0]), argument(arguments, keywords, 1, "axis", ConstantValue(0))
        if len(arguments) > 2 or not keywords.keys() <= {"axis"} or not isinstance(given, (ListValue, TupleValue)):
            raise foreign(machine)
        if is_none(machine.realize(axis)):
            raise foreign(machine)
        parts: list[Value] = [stacked(machine, machine.realize(each), like.dtype) for each in given.items]
        return wrapped(machine, apply_function(machine, function, [ListValue(parts), axis], {}), like)

    return row


def where(machine: Machine, called: Any, arguments: Arguments, keywords: Keywords) -> Value:
    like = answer(machine, called, arguments, keywords)
    if keywords or len(arguments) != 3 or twin_dtype(machine, arguments[0]) != numpy.dtype(bool):
        raise foreign(machine)
    operands = [converted(machine, each, like.dtype) for each in arguments[1:]]
    mask = converted(machine, arguments[0], numpy.dtype(bool))
    return wrapped(machine, apply_function(machine, torch.where, [mask, *operands], {}), like)


def twin_dtype(machine: Machine, value: Value) -> Any:
    array = machine.realize(value)
    return twin(array).dtype if isinstance(array, ArrayValue) else None


def filled_like(number: float) -> Row:
    def row(machine: Machine, called: Any, arguments: Arguments, keywords: Keywords) -> Value:
        array, like = first_array(machine, arguments), answer(machine, called, arguments, keywords)
        if len(arguments) > 2 or not keywords.keys() <= {"dtype"} or dtype_of(like.dtype) is None:
            raise foreign(machine)
        options = {"dtype": ConstantValue(dtype_of(like.dtype))}
        made = apply_function(machine, torch.full_like, [array.tensor, ConstantValue(number)], options)
        return wrapped(machine, made, like)

    return row


# Into torch


def from_numpy(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    if keywords or len(arguments) != 1:
        raise foreign(machine)
    return to_tensor(machine, arguments[0])


def of_numbers(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value | None:
    """A number of an array, or a list that has such, each by itself; None for arrays."""
    given = machine.realize(arguments[0]) if arguments else None
    is_number = isinstance(given, ArrayValue) and given.is_number
    return from_parts(machine, arguments, keywords) if is_number or isinstance(given, (ListValue, TupleValue)) else None


def as_tensor(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    """The same memory where nothing is converted."""
    if (made := of_numbers(machine, arguments, keywords)) is not None:
        return made
    if len(arguments) != 1 or not keywords.keys() <= {"dtype", "device"} or not isinstance(machine.realize(arguments[0]), ArrayValue):
        raise foreign(machine)
    options = {name: value for name, value in keywords.items() if not is_none(machine.realize(value))}
    tensor = to_tensor(machine, arguments[0])
    return apply_method(machine, torch.Tensor.to, [tensor], options) if options else tensor


def tensor_of(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    """`torch.tensor(a)`: memory of its own."""
    if (made := of_numbers(machine, arguments, keywords)) is not None:
        return made
    made = as_tensor(machine, arguments, {name: value for name, value in keywords.items() if name != "requires_grad"})
    if not is_none(machine.realize(keywords.get("requires_grad", ConstantValue(None)))):
        raise foreign(machine)
    assert isinstance(made, TensorValue)
    return apply_method(machine, torch.Tensor.clone, [made], {"memory_format": ConstantValue(torch.contiguous_format)})


OF_ARRAYS: dict[str, Callable[..., Value]] = {
    "from_numpy": from_numpy,
    "as_tensor": as_tensor,
    "asarray": as_tensor,
    "tensor": tensor_of,
}
"""torch's functions that take arrays."""

# Arrays made of numbers


def made_of_numbers(function: Any, maker: Callable[[Any], tuple[Callable[..., Any], list[Any]] | None]) -> None:
    """`np.zeros((2, 3))`, of numbers: `maker` says of what NumPy makes which call of torch's makes the same.

    A number that varies is kept as one where torch is told what NumPy is told; elsewhere it is fixed, because what NumPy made is
    of this call alone.
    """

    @meaning(function)
    def made(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
        if any(isinstance(machine.realize(each), (ArrayValue, TensorValue)) for each in arguments):
            return of_one(machine, function, arguments, keywords)
        if any(holds_elements(machine, each) for each in (*arguments, *keywords.values())):
            return of_parts(machine, function, arguments, keywords)
        kept = of_varying(machine, function, arguments, keywords) or by_items(machine, function, arguments, keywords)
        if kept is None:
            arguments = [fixed(machine, each) for each in arguments]
            keywords = {name: fixed(machine, each) for name, each in keywords.items()}
        like = answer(machine, function, arguments, keywords)
        if not isinstance(like, numpy.ndarray) or dtype_of(like.dtype) is None or not like.flags.c_contiguous:
            raise foreign(machine)
        found = maker(like)
        if found is None:
            raise foreign(machine)
        call, values = found
        options = {"dtype": ConstantValue(dtype_of(like.dtype)), "device": ConstantValue(CPU)}
        told = [as_value(each) for each in values] if kept is None else [kept, *map(as_value, values[1:])]
        by_parts = from_parts(machine, told, options) if kept is not None and call is torch.tensor else None
        return wrapped(machine, by_parts or apply_function(machine, call, told, options), like)


def of_varying(machine: Machine, function: Any, arguments: Arguments, keywords: Keywords) -> Value | None:
    """The shape or the contents, where numbers in it vary and torch takes them as they are; None where not."""
    given = machine.realize(arguments[0]) if len(arguments) == 1 else None
    if isinstance(given, SymbolicNumber):
        given = TupleValue((given,)) if function in OF_SHAPES else None
    if not isinstance(given, (ListValue, TupleValue)) or (keywords and function not in OF_SHAPES):
        return None  # of another type the contents might not fit: NumPy raises for that
    items = [machine.realize(item) for item in given.items]
    if not any(isinstance(item, SymbolicNumber) for item in items):
        return None
    return TupleValue(tuple(items)) if all(isinstance(item, (SymbolicNumber, ConstantValue)) for item in items) else None


def by_items(machine: Machine, function: Any, arguments: Arguments, keywords: Keywords) -> Value | None:
    """The contents, where NumPy makes a row of numbers of numbers that vary; None where not."""
    made = None if function in OF_SHAPES else number_call(machine, function, arguments, keywords)
    return made if isinstance(made, ListValue) and made.items else None


def as_value(known: Any) -> Value:
    if isinstance(known, (list, tuple)):
        items = [as_value(item) for item in known]
        return ListValue(items) if isinstance(known, list) else TupleValue(tuple(items))
    return ConstantValue(known)


def holds_elements(machine: Machine, value: Value) -> bool:
    """Whether what is in it is known to the run of the graph alone: NumPy, asked on ones, would say ones."""
    value = machine.realize(value)
    if isinstance(value, (ListValue, TupleValue)):
        return any(holds_elements(machine, item) for item in value.items)
    return isinstance(value, (ArrayValue, TensorValue))


def of_parts(machine: Machine, function: Any, arguments: Arguments, keywords: Keywords) -> Value:
    """`np.array((a[0], b, 2.0))`: parts of one type and shape, stacked."""
    if len(arguments) != 1 or not keywords.keys() <= {"dtype"} or function not in (numpy.array, numpy.asarray):
        raise foreign(machine)
    like = answer(machine, function, arguments, keywords)
    return wrapped(machine, stacked(machine, machine.realize(arguments[0]), like.dtype), like)


def stacked(machine: Machine, part: Value, dtype: Any) -> TensorValue:
    if not isinstance(part, (ListValue, TupleValue)):
        if not numpy.can_cast(numpy.dtype(kind_of(machine, part)), dtype, "same_kind"):
            raise foreign(machine, "it converts what it is given")
        return converted(machine, part, dtype)
    parts: list[Value] = [stacked(machine, machine.realize(item), dtype) for item in part.items]
    made = apply_function(machine, torch.stack, [ListValue(parts)], {})
    assert isinstance(made, TensorValue)
    return made


def of_one(machine: Machine, function: Any, arguments: Arguments, keywords: Keywords) -> Value:
    """`np.asarray(x)` and `np.array(a)`."""
    given = machine.realize(arguments[0])
    array = of_tensor(machine, given) if isinstance(given, TensorValue) else given
    if keywords or len(arguments) != 1 or function not in (numpy.array, numpy.asarray):
        raise foreign(machine)
    is_itself = function is numpy.asarray and isinstance(array, ArrayValue) and not array.is_number
    return array if is_itself else copied(machine, numpy.copy, [array], {})


def filled(number: float) -> Callable[[Any], Any]:
    return lambda like: (torch.full, [like.shape, bool(number) if like.dtype.kind == "b" else number])


def contents(like: Any) -> tuple[Callable[..., Any], list[Any]] | None:
    return (torch.tensor, [like.tolist()]) if like.size <= MOST_WRITTEN and like.ndim else None


MOST_WRITTEN = 4096
WRITTEN = (
    "array", "asarray", "arange", "linspace", "logspace", "geomspace", "full", "eye", "identity", "tri",
    "hanning", "hamming", "blackman", "bartlett", "kaiser",
)  # fmt: skip
"""Which make an array of numbers alone: it is part of the graph by its contents."""
OF_SHAPES: tuple[Any, ...] = ()
OF_KNOWN: frozenset[Any] = frozenset()
"""Functions that only compute, in memory of their own: NumPy is asked them where elements are known."""
OF_NUMBERS: frozenset[Any] = frozenset()
"""What is computed of arrays by a row below, and of rows of numbers by NumPy."""
ROWS: dict[Any, Row] = {}

if IS_THERE:
    _BY_NAME: dict[str, Row] = {
        "sum": reduction(torch.sum),
        "mean": reduction(torch.mean),
        "prod": reduction(torch.prod),
        "max": reduction(torch.amax),
        "min": reduction(torch.amin),
        "any": reduction(torch.any),
        "all": reduction(torch.all),
        "std": reduction(torch.std, correction=0),
        "var": reduction(torch.var, correction=0),
        "argmax": reduction(torch.argmax),
        "argmin": reduction(torch.argmin),
        "cumsum": along(torch.cumsum),
        "cumprod": along(torch.cumprod),
        "reshape": reshape,
        "transpose": transpose,
        "swapaxes": same_method(torch.Tensor.swapaxes, 2),
        "squeeze": same_method(torch.Tensor.squeeze, 1),
        "ravel": ravel,
        "copy": copied,
        "clip": clip,
        "round": rounded,
        "dot": dot,
        "repeat": repeated,
    }
    ROWS |= {getattr(numpy, name): row for name, row in _BY_NAME.items()}
    ROWS |= {getattr(numpy.ndarray, name): row for name, row in _BY_NAME.items()}
    ROWS |= {numpy.ndarray.flatten: flatten, numpy.ndarray.astype: astype, numpy.ndarray.item: item, numpy.generic.item: item}
    ROWS |= {numpy.ndarray.tolist: listed, numpy.generic.tolist: listed}
    ROWS |= {numpy.amax: reduction(torch.amax), numpy.amin: reduction(torch.amin)}
    ROWS |= {numpy.expand_dims: same_method(torch.Tensor.unsqueeze, 1), numpy.stack: joined(torch.stack)}
    ROWS |= {numpy.concatenate: joined(torch.cat), numpy.where: where}
    ROWS |= {numpy.broadcast_to: broadcast, numpy.take_along_axis: taken_along, numpy.put_along_axis: put_along}
    ROWS |= {numpy.interp: interpolated, numpy.flip: flipped}
    ROWS |= {numpy.zeros_like: filled_like(0), numpy.ones_like: filled_like(1)}

    _COMPUTED = """
        interp round around sort argsort argmax argmin unique searchsorted diff repeat tile roll outer cross convolve concatenate
        stack vstack hstack column_stack append insert delete polyval polyfit gradient percentile quantile median average histogram
        digitize triu tril diag trace kron flatnonzero copy isin meshgrid
    """.split()  # noqa: SIM905
    OF_KNOWN = frozenset(getattr(numpy, name) for name in _COMPUTED if hasattr(numpy, name))
    OF_NUMBERS = frozenset(getattr(numpy, name) for name in (*_BY_NAME, "amax", "amin") if hasattr(numpy, name))
    OF_KNOWN |= {getattr(numpy.ndarray, name) for name in ("argsort", "repeat", "searchsorted", "trace")}
    ROWS |= {numpy.around: rounded}

    def _method(function: Any) -> None:
        @meaning(function)
        def by_row(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
            return call(machine, function, arguments, keywords)

    for _function in (*ROWS, *OF_KNOWN):
        if getattr(_function, "__objclass__", None) is not None:
            _method(_function)
    OF_SHAPES = (numpy.zeros, numpy.ones)
    made_of_numbers(numpy.zeros, filled(0))
    made_of_numbers(numpy.ones, filled(1))
    for _name in WRITTEN:
        made_of_numbers(getattr(numpy, _name), contents)
