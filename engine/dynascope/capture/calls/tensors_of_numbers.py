"""Tensors made of Python's numbers: each form is `torch.tensor` with its type and device by name.

    x.new_tensor([1, 2])       ->  torch.tensor([1, 2], dtype=x.dtype, device=x.device)
    x.new_tensor(array)        ->  torch.tensor(array, dtype=x.dtype, device=x.device)
    torch.Tensor([1, 2])       ->  torch.tensor([1, 2], dtype=torch.float32, device="cpu")
    torch.Tensor(array)        ->  torch.as_tensor(array, dtype=torch.float32, device="cpu")
    torch.tensor(a_deque)      ->  torch.tensor(list(a_deque))
    torch.tensor([[n, 1.5]])   ->  torch.stack([torch.full((), float(n)), torch.full((), 1.5)]).view(1, 2)

Numbers that vary, and elements of tensors (`torch.tensor([a.mean(), b.mean()])`), are put together from parts: `torch.tensor` itself
looks at each number.
"""

from __future__ import annotations

import collections
import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch

from dynascope.capture import numpy_numbers
from dynascope.capture.calls import known_tensors
from dynascope.capture.calls.arguments import Arguments, Keywords, is_none
from dynascope.capture.calls.registry import meaning
from dynascope.capture.calls.tensors import apply_function, apply_method
from dynascope.capture.protocols.iteration import elements
from dynascope.capture.reasons import ForeignCall, TorchCallFails
from dynascope.capture.signals import Break
from dynascope.capture.values import (
    NONE,
    TRUE,
    ArrayValue,
    ConstantValue,
    InstanceValue,
    ListValue,
    SymbolicNumber,
    TensorValue,
    TupleValue,
    Value,
)
from dynascope.meta_kernels import autocast

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine


@meaning(torch.Tensor.new_tensor)
def new_tensor(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    others = dict(keywords)
    by_name = [others.pop("data")] if "data" in others else []
    like, *given = map(machine.realize, (*arguments, *by_name))
    if isinstance(like, TensorValue) and len(given) == 1 and isinstance(given[0], ArrayValue):
        return machine.call_now(ConstantValue(torch.tensor), given, options_like(machine, like, others))
    if isinstance(like, TensorValue) and len(given) == 1:
        check_numpy_numbers(machine, given[0], options_like(machine, like, others)["dtype"])
    if not isinstance(like, TensorValue) or len(given) != 1 or not is_of_numbers(machine, given[0]):
        return apply_method(machine, torch.Tensor.new_tensor, list(arguments), keywords)
    return tensor_like(machine, like, given[0], others)


@meaning(torch.Tensor.new)
def new(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    """`x.new([1, 2])`. Its other forms take sizes, or tensors whose memory they share."""
    like, *given = map(machine.realize, arguments)
    if len(given) == 1 and not keywords and is_size_of_no_dimension(machine, given[0]):
        return apply_method(machine, torch.Tensor.new_empty, [like, *given], {})
    is_filled = len(given) == 1 and not keywords and isinstance(like, TensorValue) and isinstance(given[0], ListValue)
    if not is_filled or not is_of_numbers(machine, given[0], kinds_taken(like.example.dtype)):
        return apply_method(machine, torch.Tensor.new, list(arguments), keywords)
    return tensor_like(machine, like, given[0], {})


def is_size_of_no_dimension(machine: Machine, value: Value) -> bool:
    """In a graph it would be an empty tuple, which says that there are no elements."""
    return value.python_type is torch.Size and not elements(machine, value)


@meaning(torch.Tensor)
def plain_tensor(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    """`torch.Tensor([1, 2])`, `torch.Tensor(2, 3)`: of the default type, on the CPU."""
    return legacy_tensor(machine, torch.Tensor, torch.get_default_dtype(), arguments, keywords)


def legacy_tensor(machine: Machine, cls: Any, dtype: torch.dtype, arguments: Arguments, keywords: Keywords) -> Value:
    """`torch.LongTensor([1, 2])`, `torch.LongTensor(2, 3)`: of numbers of a kind, of an array, or with room for so many. Of a tensor of
    this type another one in its memory."""
    given = [machine.realize(each) for each in arguments]
    options: dict[str, Value] = {"dtype": ConstantValue(dtype), "device": ConstantValue(torch.device("cpu"))}
    is_list = len(given) == 1 and isinstance(given[0], ListValue | TupleValue) and given[0].python_type in (list, tuple)
    if not keywords and is_list and is_of_numbers(machine, given[0], kinds_taken(dtype)):
        return from_parts(machine, given, options) or apply_function(machine, torch.tensor, given, options)
    if not keywords and given and all(is_size(each) for each in given):
        return apply_function(machine, torch.empty, given, options)
    if not keywords and len(given) == 1 and isinstance(given[0], ArrayValue) and not given[0].is_number and given[0].tensor.example.dim():
        return machine.call_now(ConstantValue(torch.as_tensor), given, options)  # which shares its memory where nothing is converted
    if not keywords and len(given) == 1 and isinstance(given[0], TensorValue) and given[0].device.type == "cpu":
        if cls is torch.Tensor or given[0].example.dtype is dtype:
            return machine.call_now(ConstantValue(torch.ops.aten.alias.default), given, {})
    raise Break(ForeignCall(f"torch.{cls.__name__}", "it makes a tensor of something else than numbers, an array or sizes"))


def tensor_like(machine: Machine, like: TensorValue, data: Value, keywords: Keywords) -> Value:
    options = options_like(machine, like, keywords)
    return from_parts(machine, [data], options) or apply_function(machine, torch.tensor, [data], options)


def options_like(machine: Machine, like: TensorValue, keywords: dict[str, Value]) -> dict[str, Value]:
    """The type and device are `like`'s where none are given."""
    given = {name: value for name, value in keywords.items() if not is_none(machine.realize(value))}
    return {"dtype": ConstantValue(like.example.dtype), "device": ConstantValue(like.device), **given}


def is_size(value: Value) -> bool:
    return value.python_type is int and isinstance(value, ConstantValue | SymbolicNumber)


def kinds_taken(dtype: torch.dtype) -> tuple[type, ...]:
    """What the oldest constructors take: a tensor of whole numbers no fractions."""
    return (bool, int, float) if dtype.is_floating_point else (bool, int)


def is_of_numbers(machine: Machine, data: Value, kinds: tuple[type, ...] = (bool, int, float, complex)) -> bool:
    return all(
        isinstance(each, ConstantValue | SymbolicNumber) and each.python_type in kinds for each in numbers_in(machine, data)
    )


def with_lists(machine: Machine, arguments: Arguments) -> list[Value]:
    """What a tensor is made of as a list where it is a deque: torch reads any sequence."""
    first = machine.realize(arguments[0]) if arguments else None
    is_deque = isinstance(first, InstanceValue) and first.cls is collections.deque
    return [ListValue(elements(machine, first)), *arguments[1:]] if is_deque else list(arguments)


def numbers_in(machine: Machine, data: Value) -> Iterator[Value]:
    """What lists and tuples hold, at whatever depth."""
    data = machine.realize(data)
    if isinstance(data, ListValue | TupleValue):
        for each in data.items:
            yield from numbers_in(machine, each)
    else:
        yield data


def shape_of(machine: Machine, data: Value) -> tuple[int, ...] | None:
    """Of nested lists; None where they are not of one length."""
    data = machine.realize(data)
    if not isinstance(data, ListValue | TupleValue):
        return ()
    shapes = {shape_of(machine, each) for each in data.items}
    if len(shapes) != 1 or None in shapes:
        return None
    (shape,) = shapes
    return (len(data.items), *shape)


# Numbers that no constant holds


def from_parts(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value | None:
    """Each number for itself, and each of NumPy's, whose types count; None where `torch.tensor` can look at all of them, or only
    it can say what comes of them."""
    if len(arguments) != 1 or not keywords.keys() <= {"dtype", "device"}:
        return None
    numbers = list(numbers_in(machine, arguments[0]))
    check_numpy_numbers(machine, arguments[0], keywords.get("dtype", NONE))
    shape = shape_of(machine, arguments[0])
    if shape is None or (not shape and isinstance(numbers[0], TensorValue)):
        return None  # `torch.tensor(x)` copies it, of whatever shape
    unknown = SymbolicNumber | TensorValue | ArrayValue
    varying = [each for each in numbers if isinstance(each, unknown) or each.python_type in numpy_numbers.TYPES]
    types = [type_of(each) for each in numbers]
    if not varying or not all(types):
        return None
    options = {name: value for name, value in keywords.items() if not is_none(machine.realize(value))}
    held = [each for each in varying if isinstance(each, TensorValue | ArrayValue)]
    if "dtype" in options and held and not all(holds_any(machine, each, options["dtype"]) for each in held):
        return None  # a number that the type does not hold is an error there, and wraps around here
    options.setdefault("dtype", ConstantValue(functools.reduce(torch.promote_types, types)))
    parts = [part(machine, each, options) for each in numbers]
    if not shape:
        return parts[0]
    row = apply_function(machine, torch.stack, [ListValue(parts)], {})
    if len(shape) == 1:
        return row
    return apply_method(machine, torch.Tensor.view, [row, *map(ConstantValue, shape)], {})


def check_numpy_numbers(machine: Machine, data: Value, dtype: Value) -> None:
    """Breaks where torch refuses one of NumPy's numbers for the type: a graph holds numbers of Python's in their place."""
    known = machine.realize(dtype)
    if not isinstance(known, ConstantValue) or not isinstance(known.value, torch.dtype):
        return
    for each in numbers_in(machine, data):
        if isinstance(each, ConstantValue | SymbolicNumber) and each.python_type in numpy_numbers.TYPES:
            refusal = numpy_numbers.refusal_as_element(each.python_type, known.value)
            if refusal is not None:
                raise Break(TorchCallFails(machine.expression(), refusal))


def holds_any(machine: Machine, number: Value, dtype: Value) -> bool:
    """Whether the type has what the number may be, rounded."""
    return isinstance(number, ArrayValue) and machine.object_of(dtype) in (torch.float32, torch.float64)


def type_of(number: Value) -> torch.dtype | None:
    """What `torch.tensor` makes of the number by itself. A tensor's element keeps its type; with a gradient torch warns, and what has
    dimensions is a list to it."""
    if isinstance(number, TensorValue):
        example = number.example
        return None if example.dim() or example.requires_grad or example.is_complex() else example.dtype
    if isinstance(number, ArrayValue) and not number.is_number:
        return None
    if not isinstance(number, ConstantValue | SymbolicNumber | ArrayValue):
        return None
    kinds = {bool: torch.bool, int: torch.int64, float: torch.get_default_dtype(), **numpy_numbers.TENSOR_TYPES}
    return kinds.get(number.python_type)


def part(machine: Machine, number: Value, options: dict[str, Value]) -> Value:
    """A tensor without dimensions."""
    if isinstance(number, TensorValue | ArrayValue):
        options = {"device": ConstantValue(machine.default_device()), **options}
        if isinstance(number, ArrayValue):  # to the number itself nobody can write
            number, options = number.tensor, {**options, "copy": TRUE}
        return apply_method(machine, torch.Tensor.to, [number], options)
    if machine.object_of(options["dtype"]).is_floating_point and number.python_type is int:
        number = machine.call_now(ConstantValue(float), [number])
    return apply_function(machine, torch.full, [TupleValue(()), number], options)


def as_tensor_operation(machine: Machine, function: Any, arguments: Arguments, keywords: Keywords) -> Value | None:
    """`torch.div(n, 2)` of a number that varies: as of a tensor that holds it; None where it is no such call."""
    name = getattr(function, "__name__", "")
    values = [machine.realize(value) for value in arguments]
    if getattr(torch, name, None) is not function or not known_tensors.repeats(function) or len(values) != 2 or autocast.active_devices():
        return None
    if not all(isinstance(each, SymbolicNumber | ConstantValue) and each.python_type is int for each in values):
        return None
    if not any(isinstance(each, SymbolicNumber) for each in values):
        return None
    dtype = {"dtype": ConstantValue(torch.int64)}
    made = [apply_function(machine, torch.full, [TupleValue(()), value], dtype) for value in values]
    return apply_function(machine, function, made, keywords)
