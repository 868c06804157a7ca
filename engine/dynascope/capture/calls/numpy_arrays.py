"""NumPy's arrays as tensors on the CPU: what a program does to them becomes torch's operations.

    a = x.numpy(); b = np.sin(a) * 2; torch.from_numpy(b) + 1        detach, sin, mul, add: one graph

What a call gives (which dtype, shape and layout, an array or a number of NumPy's) is asked of NumPy itself, on arrays of ones of the
same kind; operands are converted to the types that NumPy says it computes with. Where torch's result is not of that kind, and for
all functions that have no row here, the call is left to NumPy. What NumPy warns of (a division by zero) is not said.
"""

from __future__ import annotations

import math
import operator
import types
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from dynascope.capture.calls import equivalents, late_numbers
from dynascope.capture.calls.arguments import Arguments, Keywords
from dynascope.capture.calls.pure import compute
from dynascope.capture.calls.registry import meaning
from dynascope.capture.calls.tensors import apply_function, apply_method
from dynascope.capture.expressions import callee
from dynascope.capture.metadata import CPU
from dynascope.capture.numpy_numbers import DTYPES, HELD, IS_THERE, is_dtype, is_spread, numpy, says_type
from dynascope.capture.protocols import items, operators, tensor_data
from dynascope.capture.reasons import ForeignCall, TorchCallFails
from dynascope.capture.signals import Break
from dynascope.capture.values import (
    ArrayValue,
    ConstantValue,
    ListValue,
    NotConstant,
    SliceValue,
    SymbolicNumber,
    TensorValue,
    TupleValue,
    Value,
    constant_of,
)
from dynascope.guards.state_calls import CallReturns

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine

def foreign(machine: Machine, why: str = "NumPy's meaning of it is not torch's") -> Break:
    return Break(ForeignCall(callee(machine.expression()) or machine.expression(), why))


# Between tensors and arrays


def of_tensor(machine: Machine, value: Value) -> ArrayValue:
    """`x.numpy()`: the same memory."""
    tensor = machine.realize(value)
    if not isinstance(tensor, TensorValue) or tensor.device != CPU or tensor.example.dtype not in HELD:
        raise foreign(machine, "an array of it cannot be part of a graph")
    if tensor.example.is_conj() or tensor.example.is_neg() or (torch.is_grad_enabled() and tensor.example.requires_grad):
        raise Break(TorchCallFails(machine.expression(), "Can't call numpy() on Tensor that requires grad"))
    # What NumPy writes autograd does not count.
    return ArrayValue(tensor_data.counting_alone(machine, apply_method(machine, torch.Tensor.detach, [tensor], {})))


def to_tensor(machine: Machine, value: Value) -> TensorValue:
    """`torch.from_numpy(a)`: the same memory, another tensor."""
    array = machine.realize(value)
    if not isinstance(array, ArrayValue) or array.is_number or array.turned:
        raise foreign(machine)
    return apply_method(machine, torch.Tensor.detach, [array.tensor], {})


def twin(value: ArrayValue) -> Any:
    """An array of ones that NumPy takes for the value."""
    if value.turned is not None:
        array, key, version = value.turned
        if array.tensor.example._version != version:
            raise Break(ForeignCall("[::-1]", "the array was written since"))
        return twin(array)[key]
    example = value.tensor.example
    made = torch.empty_strided(example.shape, example.stride(), dtype=example.dtype).fill_(1).numpy()
    return made[()] if value.is_number else made


def asked(machine: Machine, function: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
    """What NumPy gives. What it refuses it refuses in its own words, when Python runs the call."""
    machine.guards.add_state(CallReturns(numpy.geterr, numpy.geterr()))
    if not {*numpy.geterr().values()} <= {"warn", "ignore"}:
        raise foreign(machine, "numpy.seterr asks for errors")
    try:
        with numpy.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return function(*arguments, **keywords)
    except Exception:
        raise foreign(machine) from None


def as_numpy(machine: Machine, value: Value) -> Any:
    """The operand as NumPy gets it when it is asked."""
    value = machine.realize(value)
    if isinstance(value, ArrayValue):
        return twin(value)
    if isinstance(value, SymbolicNumber):
        return value.example
    if isinstance(value, (ListValue, TupleValue)):
        made = [as_numpy(machine, item) for item in value.items]
        return made if isinstance(value, ListValue) else tuple(made)
    if isinstance(value, SliceValue):
        return slice(*(as_numpy(machine, part) for part in value.parts))
    known = constant_of(value)
    if type(known) is NotConstant:
        raise foreign(machine)
    return known


def wrapped(machine: Machine, tensor: Value, like: Any, checks_shape: bool = True) -> ArrayValue:
    """The result, if it is of the kind that NumPy gave."""
    if not isinstance(tensor, TensorValue) or not isinstance(like, (numpy.ndarray, numpy.generic)):
        raise foreign(machine)
    value = ArrayValue(tensor, isinstance(like, numpy.generic))
    made = value.tensor.example
    if dtype_of(like.dtype, HELD) is not made.dtype or value.tensor.device != CPU:
        raise foreign(machine)
    if checks_shape and (tuple(made.shape) != like.shape or not lies_alike(made, like)):
        raise foreign(machine)
    return value


def lies_alike(made: torch.Tensor, like: Any) -> bool:
    steps = (step // like.itemsize for step in like.strides)
    return made.numel() < 2 or all(size < 2 or one == other for size, one, other in zip(made.shape, made.stride(), steps, strict=True))


def dtype_of(dtype: Any, known: frozenset[torch.dtype] = DTYPES) -> torch.dtype | None:
    """torch's for NumPy's, of those that both compute with."""
    try:
        found = torch.from_numpy(numpy.empty(0, dtype)).dtype
    except (TypeError, ValueError):
        return None
    return found if found in known else None


def converted(machine: Machine, value: Value, dtype: Any) -> TensorValue:
    """An operand as a tensor of the type that NumPy computes with."""
    value, wanted = machine.realize(value), dtype_of(dtype)
    if wanted is None:
        raise foreign(machine)
    if isinstance(value, ArrayValue):
        if value.tensor.example.dtype is wanted:
            return value.tensor
        return apply_method(machine, torch.Tensor.to, [value.tensor, ConstantValue(wanted)], {})
    known = value if isinstance(value, SymbolicNumber) else ConstantValue(machine.object_of(value))
    if isinstance(known, ConstantValue) and isinstance(known.value, numpy.generic):
        known = ConstantValue(known.value.item())
    if known.python_type not in (bool, int, float):
        raise foreign(machine)
    return apply_function(machine, torch.full, [TupleValue(()), known], {"dtype": ConstantValue(wanted), "device": ConstantValue(CPU)})


# Universal functions and operators


def universal(machine: Machine, function: Any, arguments: Arguments, keywords: Keywords) -> ArrayValue:
    like = asked(machine, function, *[as_numpy(machine, argument) for argument in arguments])
    if keywords or function not in UNIVERSAL:
        raise foreign(machine)
    return wrapped(machine, computed(machine, function, arguments), like)


def computed(machine: Machine, function: Any, arguments: Arguments) -> Value:
    """Each operand in the type of the loop that NumPy chooses."""
    kinds = [kind_of(machine, argument) for argument in arguments]
    loop = asked(machine, function.resolve_dtypes, (*kinds, *[None] * function.nout))
    operands = [converted(machine, argument, dtype) for argument, dtype in zip(arguments, loop, strict=False)]
    meaning_of_it = UNIVERSAL[function]
    if isinstance(meaning_of_it, types.FunctionType) and meaning_of_it.__module__ == __name__:
        return machine.finish(equivalents.enter(machine, meaning_of_it, [*operands]))
    return apply_function(machine, meaning_of_it, list(operands), {})


def floor_of_quotient(dividend, divisor):
    return torch.div(dividend, divisor, rounding_mode="floor")


def remainder(dividend, divisor):
    """A remainder of zero has the divisor's sign."""
    found = torch.remainder(dividend, divisor)
    return torch.where(found == 0, torch.copysign(torch.zeros_like(found), divisor), found) if found.is_floating_point() else found


def sign(number):
    return torch.where(torch.isnan(number), number, torch.sign(number)) if number.is_floating_point() else torch.sign(number)


def kind_of(machine: Machine, value: Value) -> Any:
    """The type as NumPy weighs it: numbers of Python's give way."""
    value = machine.realize(value)
    if isinstance(value, ArrayValue):
        return twin(value).dtype
    kind = value.python_type
    if kind is bool:
        return numpy.dtype(bool)
    if kind in (int, float):
        return kind
    if issubclass(kind, numpy.generic):
        return numpy.dtype(kind)
    raise foreign(machine)


def binary(machine: Machine, op: Any, left: Value, right: Value) -> Any:
    function = BY_METHOD.get(op.method)
    if TensorValue in (type(left), type(right)):
        return operators.apply(machine, op, number_of(machine, left), number_of(machine, right))
    if function is None or not all(is_operand(machine, side) for side in (left, right)):
        raise foreign(machine)
    left = machine.realize(left)
    if op.in_place_method is None or not isinstance(left, ArrayValue) or left.is_number:
        return universal(machine, function, [left, right], {})
    given = twin(left)
    check_writable(machine, left)
    asked(machine, function, given, as_numpy(machine, right), out=given)
    apply_method(machine, torch.Tensor.copy_, [left.tensor, computed(machine, function, [left, right])], {})
    return left


def number_of(machine: Machine, value: Value) -> Value:
    """What a tensor meets: of a number of NumPy's the one of Python's that it is."""
    if not isinstance(value, ArrayValue):
        return value
    found = late_numbers.number_of_array(machine, value) if value.is_number else None
    if found is None:
        raise foreign(machine)
    return found


def is_operand(machine: Machine, value: Value) -> bool:
    value = machine.realize(value)
    return isinstance(value, (ArrayValue, SymbolicNumber)) or (
        isinstance(value, ConstantValue) and (type(value.value) in (bool, int, float) or isinstance(value.value, numpy.generic))
    )


def unary(machine: Machine, op: Any, value: ArrayValue) -> ArrayValue:
    names = {"__neg__": "negative", "__invert__": "invert", "__pos__": "positive"}
    return universal(machine, getattr(numpy, names[op.method]), [value], {})


# Items


def item(machine: Machine, array: ArrayValue, key: Value) -> ArrayValue:
    """Numbers and slices give a part of the same memory, or a number; arrays of places and masks a copy, as in torch."""
    key = late_numbers.number_key(machine, key, of_places=True) or machine.realize(key)
    given = twin(array)
    if (backwards := turned(machine, array, key)) is not None:
        return backwards
    mask = isinstance(key, ArrayValue) and key.tensor.example.dtype is torch.bool
    like = given[numpy.ones(0, int)] if mask else asked(machine, operator.getitem, given, index_of(machine, key))
    found = apply_function(machine, operator.getitem, [array.tensor, torch_key(machine, key)], {})
    if isinstance(like, numpy.generic):
        found = apply_method(machine, torch.Tensor.clone, [found], {})
    elif array.turned is not None:
        return part_of_turned(machine, array, key, found, like)
    return wrapped(machine, found, like, checks_shape=not mask)


def part_of_turned(machine: Machine, array: ArrayValue, key: Value, found: Value, like: Any) -> ArrayValue:
    """`a[::-1][1:]`, which goes backwards too."""
    place = constant_of(key)
    if type(place) is NotConstant or not isinstance(like, numpy.ndarray):
        raise foreign(machine, "it is a part of an array that goes backwards")
    value = wrapped(machine, found, like, checks_shape=False)
    if tuple(value.tensor.example.shape) != like.shape:
        raise foreign(machine)
    value.turned = array, place, array.tensor.example._version
    return value


def turned(machine: Machine, array: ArrayValue, key: Value) -> ArrayValue | None:
    """`a[::-1]`, `a[:, ::-1]`: a copy stands for what goes backwards over the same memory; None for other keys."""
    parts = key.items if isinstance(key, TupleValue) else (key,)
    known = [constant_of(part) for part in parts]
    if not all(isinstance(part, slice) or type(part) is int for part in known):
        return None
    backwards = [at for at, part in enumerate(known) if isinstance(part, slice) and type(part.step) is int and part.step < 0]
    if not backwards:
        return None
    place, given = tuple(known), twin(array)
    like = asked(machine, operator.getitem, given, place)
    sizes = zip(known, given.shape, strict=False)
    ahead = TupleValue(tuple(ConstantValue(part) if type(part) is int else ahead_of(part, size) for part, size in sizes))
    found = apply_function(machine, operator.getitem, [array.tensor, ahead], {})
    along = (at - sum(type(part) is int for part in known[:at]) for at in backwards)
    reversed_along = TupleValue(tuple(map(ConstantValue, along)))
    value = ArrayValue(machine.realize(apply_function(machine, torch.flip, [found, reversed_along], {})))
    if tuple(value.tensor.example.shape) != like.shape:
        raise foreign(machine)
    value.turned = array, place, array.tensor.example._version
    return value


def ahead_of(part: slice, size: int) -> SliceValue:
    """The slice that takes the same items in the order of the memory."""
    taken = range(size)[part]
    if part.step is None or part.step > 0:
        first, end, step = taken.start, taken.stop, taken.step
    elif not taken:
        first, end, step = 0, 0, 1
    else:
        first, end, step = taken[-1], taken[0] + 1, -taken.step
    return SliceValue((ConstantValue(first), ConstantValue(end), ConstantValue(step)))


def index_of(machine: Machine, key: Value) -> Any:
    """The key as NumPy gets it when it is asked: places that are there."""
    key = machine.realize(key)
    if isinstance(key, ArrayValue):
        return twin(key) * 0 if not key.is_number else 0
    if isinstance(key, TupleValue):
        return tuple(index_of(machine, part) for part in key.items)
    return as_numpy(machine, key)


def torch_key(machine: Machine, key: Value) -> Value:
    key = machine.realize(key)
    if isinstance(key, ArrayValue):
        if key.is_number or key.tensor.example.dtype not in (torch.bool, torch.int64, torch.int32):
            raise foreign(machine)
        return key.tensor
    if isinstance(key, TupleValue):
        parts = [torch_key(machine, part) for part in key.items]
        if sum(isinstance(part, TensorValue) for part in parts) and len(parts) > 1:
            raise foreign(machine)
        return TupleValue(tuple(parts))
    if isinstance(key, ListValue):
        raise foreign(machine)
    if isinstance(key, SliceValue):
        step = machine.known(key.parts[2])
        if isinstance(step, ConstantValue) and step.value is not None and step.value < 1:
            raise foreign(machine)
    return key


def set_item(machine: Machine, array: ArrayValue, key: Value, value: Value) -> None:
    given = twin(array)
    check_writable(machine, array)
    if array.is_number or not is_operand(machine, value):
        raise foreign(machine)
    kind = kind_of(machine, value)
    weak = numpy.result_type(given.dtype, kind(0) if kind is int or kind is float else kind)
    if weak != given.dtype:
        raise foreign(machine, "it converts what it is given")
    asked(machine, operator.setitem, given, index_of(machine, key), as_numpy(machine, value))
    known = machine.realize(value)
    if isinstance(known, ArrayValue) or isinstance(getattr(known, "value", None), numpy.generic):
        known = converted(machine, known, given.dtype)
    items.set(machine, array.tensor, torch_key(machine, key), known)


def check_writable(machine: Machine, array: ArrayValue) -> None:
    if array.turned or is_spread(array.tensor.example):
        raise foreign(machine, "it writes to a view")


def rows(machine: Machine, array: ArrayValue) -> list[Value]:
    shape = machine.extents.sizes(array.tensor)
    if array.is_number or not shape or type(shape[0]) is not int:
        raise foreign(machine)
    return [item(machine, array, ConstantValue(at)) for at in range(shape[0])]


# Attributes


def attribute(machine: Machine, array: ArrayValue, name: str) -> Value | None:
    """Of those that say what an array is; methods are found in its class."""
    example = array.tensor.example
    if name == "shape":
        return TupleValue(tuple(map(machine.sizes.value, machine.extents.sizes(array.tensor))))
    if name == "ndim":
        return ConstantValue(example.dim())
    if name in ("dtype", "itemsize"):
        return ConstantValue(getattr(twin(array), name))
    if name == "size":
        return machine.sizes.value(math.prod(machine.extents.sizes(array.tensor)))
    if name == "T" and not array.turned:
        return wrapped(machine, permuted(machine, array, tuple(range(example.dim()))[::-1]), twin(array).T)
    if name == "real":
        return array
    return None


def made_dtype(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    """`numpy.dtype("float32")`, where there is one object of it."""
    known = [constant_of(machine.known(argument)) for argument in arguments]
    if keywords or len(known) != 1 or not says_type(known[0]):
        raise foreign(machine)
    made = compute(machine, numpy.dtype, tuple(known))
    if not is_dtype(made.value):
        raise foreign(machine)
    return made


def permuted(machine: Machine, array: ArrayValue, order: tuple[int, ...]) -> Value:
    return apply_method(machine, torch.Tensor.permute, [array.tensor, *map(ConstantValue, order)], {})


if IS_THERE:
    meaning(numpy.dtype)(made_dtype)

UNIVERSAL: dict[Any, Callable[..., Any]] = {}
BY_METHOD: dict[str, Any] = {}

if IS_THERE:
    _SAME = """sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh arccosh arctanh exp exp2 expm1 log log2 log10 log1p sqrt square
        negative floor ceil trunc isnan isinf isfinite logical_and logical_or logical_not logical_xor maximum minimum fmax fmin arctan2
        hypot greater greater_equal less less_equal bitwise_and bitwise_or bitwise_xor matmul add subtract multiply copysign deg2rad
        rad2deg signbit logaddexp logaddexp2 fmod float_power reciprocal gcd lcm nextafter""".split()  # noqa: SIM905
    UNIVERSAL |= {getattr(numpy, name): getattr(torch, name) for name in _SAME if hasattr(torch, name)}
    UNIVERSAL |= {
        numpy.divide: torch.true_divide,
        numpy.absolute: torch.abs,
        numpy.fabs: torch.abs,
        numpy.invert: torch.bitwise_not,
        numpy.rint: torch.round,
        numpy.power: torch.pow,
        numpy.positive: torch.clone,
        numpy.floor_divide: floor_of_quotient,
        numpy.remainder: remainder,
        numpy.sign: sign,
        numpy.equal: torch.eq,
        numpy.not_equal: torch.ne,
    }
    _METHODS = dict(
        add="add", sub="subtract", mul="multiply", truediv="divide", matmul="matmul", pow="power", lt="less", le="less_equal",
        gt="greater", ge="greater_equal", eq="equal", ne="not_equal", xor="bitwise_xor", floordiv="floor_divide", mod="remainder",
    )  # fmt: skip
    _METHODS |= {"and": "bitwise_and", "or": "bitwise_or"}
    BY_METHOD |= {f"__{method}__": getattr(numpy, name) for method, name in _METHODS.items()}
