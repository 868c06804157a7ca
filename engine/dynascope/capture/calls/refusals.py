"""What plain PyTorch refuses although its meta kernels do not: types an operator has no CPU kernel for.

    check_types(torch.sub, (f32[4], True), {}, cpu).text     "Subtraction with a bool tensor is not supported ..."

The types are tried once for each kind of call, on tensors of zeros (of one element where they are large), and once more with a
gradient where one is asked for. The answer is the words of the error, or None. Only torch's own operators are tried (of a
function that torch has in Python, those that it comes down to), and of those only what checks its operands: an operator of the
program may do anything, and kernels that follow offsets into other tensors, or exchange rows by a matrix factor's pivots, may
reach anything.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from types import FunctionType
from typing import Any

import torch

from dynascope.capture.operators_called import operators_called
from dynascope.dataclass import dataclass
from dynascope.meta_kernels import autocast, known_results
from dynascope.meta_kernels.torch_warnings import noted

ABOUT_TYPES = re.compile(
    r"not implemented for|d ?type|scalar ?type|unsafe to autocast|can't be cast|\bbool|\bcomplex\b"
    r"|negative integer powers|floating point|tensors but got|converted to type",
    re.IGNORECASE,
)
"""Errors that would be the same for tensors of any size."""

_tried: dict[tuple, TypeRefusal | None] = {}
_UNCHECKED_OPERANDS = re.compile(r"offset|lengths|seq(?!uence$)|_ptr|zero_point|pivot", re.IGNORECASE)
_PLACES = frozenset(["index", "indices", "mask"])
_FEW_ELEMENTS = 1 << 16
"""Of all operands together: more are not made for a trial."""
_PYTHON_NAMES = {
    "truediv": "div",
    "floordiv": "floor_divide",
    "mod": "remainder",
    "and": "bitwise_and",
    "or": "bitwise_or",
    "xor": "bitwise_xor",
    "invert": "bitwise_not",
    "inv": "bitwise_not",
    "lshift": "__lshift__",
    "rshift": "__rshift__",
}
"""Functions of the module `operator` under torch's names for them."""
_OF_BITS = frozenset(f"__{way}{each}__" for each in ("and", "or", "xor", "lshift", "rshift") for way in ("", "i", "r"))
_ACROSS_DEVICES = """
    copy_ to type_as getitem setitem __getitem__ __setitem__ index_put index_put_ fill_ index_fill index_fill_
    _pack_padded_sequence tensor_split lstm gru rnn_tanh rnn_relu
"""
ACROSS_DEVICES = frozenset(_ACROSS_DEVICES.split())
"""Operations that take tensors of several devices, beside the pointwise ones, which take numbers of the CPU."""


@cache
def is_harmless(target: Callable) -> bool:
    """Whether a function of torch may be run to see what it says of types."""
    packet = _operator(target)
    if packet is None or packet.__name__.startswith("_") and not packet.__name__.startswith(("__", "_foreach_")):
        return False
    return not any(map(_reaches, _overloads(target)))


def _operator(target: Callable) -> Any:
    """The operator that a function, a method or one of Python's own operators calls; None for what is not torch's."""
    if isinstance(target, torch._ops.OpOverload):
        target = target.overloadpacket
    if isinstance(target, torch._ops.OpOverloadPacket):
        return target if str(target).startswith("aten.") else None
    name, module = getattr(target, "__name__", ""), getattr(target, "__module__", None) or "torch"
    if module == "_operator":
        name = name.strip("_")
        name = _PYTHON_NAMES.get(name) or _PYTHON_NAMES.get(name.removeprefix("i")) or name
        candidates = (name, name.removeprefix("i"))
    elif module == "torch" or module.startswith("torch."):
        plain = name.strip("_") if name.startswith("__") else name
        others = (_PYTHON_NAMES.get(each) or each for each in (plain, plain.removeprefix("r"), plain.removeprefix("i")))
        candidates = (name, name.removesuffix("_"), f"{name}_loss", *(others if plain != name else ()))
    else:
        candidates = ()
    found = (getattr(torch.ops.aten, name, None) for name in candidates)
    return next((each for each in found if isinstance(each, torch._ops.OpOverloadPacket)), None)  # `aten.__eq__` is Python's own


@dataclass(frozen=True)
class TypeRefusal:
    """Why a graph holds no call with operands of these types. `raises`: the call itself fails, so the program ends there."""

    text: str
    raises: bool


def check_types(target: Callable, arguments: tuple, keywords: dict[str, Any], device: torch.device) -> TypeRefusal | None:
    """Why the device refuses tensors and numbers of these types, if it does. Operands all of one float type are taken as fit,
    unless autocast makes others of them. Operands without any element are tried as they are."""
    tensors = list(tensors_in((*arguments, *keywords.values())))
    if target is operator.setitem and (refusal := _check_written_type(*arguments)) is not None:
        return TypeRefusal(refusal, raises=True)
    if tensors and not any(map(torch.Tensor.numel, tensors)):
        refusal = _check_empty(target, arguments, keywords, device)
        if refusal is not None:
            return TypeRefusal(refusal, raises=True)
    refusal = _check_dimension(target, arguments, keywords, device)
    if refusal is not None:
        return TypeRefusal(refusal, raises=True)
    lower = torch.get_autocast_dtype(device.type) if torch.is_autocast_enabled(device.type) else None
    if (
        not tensors
        or any(isinstance(each, torch.Generator) for each in (*arguments, *keywords.values()))  # it would go on
        or (lower is None and _are_usual(target, tensors, arguments, keywords, device) and not _takes_no_floats(_operator(target)))
    ):
        return None
    named = tuple((name, _kinds((item,))) for name, item in keywords.items())
    differentiates = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)
    are_few = all(map(torch.Tensor.numel, tensors)) and sum(map(torch.Tensor.numel, tensors)) <= _FEW_ELEMENTS
    signature = (target, _kinds(arguments), named, lower, device, differentiates, are_few)
    if signature not in _tried:
        _tried[signature] = None
        for makes in _ways_to_try(target, arguments, keywords, device, are_few):
            try:
                _tried[signature] = _try(_Trial(target, arguments, keywords, device, makes), differentiates)
                break
            except _SaysNothing:
                continue
    return _tried[signature]


_SEQUENCES = (list, tuple, range)
"""Torch makes tensors of those that stand in a subscript, of a tuple in a tuple too."""


def _check_written_type(table: Any, key: Any, values: Any) -> str | None:
    """What torch says of `table[places] = values` of another type: a part that slices and numbers say converts them, places do not,
    and a mask converts one value."""
    if not isinstance(table, torch.Tensor) or not isinstance(values, torch.Tensor) or values.dtype == table.dtype:
        return None
    parts = [torch.tensor(part) if isinstance(part, _SEQUENCES) else part for part in (key if isinstance(key, tuple) else (key,))]
    places = [part for part in parts if isinstance(part, torch.Tensor) and part.dim()]
    if not places or values.numel() == 1 and all(place.dtype in (torch.bool, torch.uint8) for place in places):
        return None
    try:
        torch.zeros(1, dtype=table.dtype)[[0]] = torch.zeros(1, dtype=values.dtype)
    except RuntimeError as error:
        return str(error)
    return None


def _check_empty(target: Callable, arguments: tuple, keywords: dict[str, Any], device: torch.device) -> str | None:
    """What the operator says where there is nothing in its operands, which costs nothing to ask: kernels refuse what meta
    kernels do not (a `mode` of no elements), also where nothing reads their result."""
    if not is_harmless(target) or _stops_a_gpu(_overloads(target)):
        return None
    try:
        with noted():
            _Trial(target, arguments, keywords, device, _zeros).run(differentiates=False)
    except Exception as error:  # what is written in Python raises what Python does: a string has no attribute `size`
        return str(error).strip().split("\n")[0]
    return None


def _check_dimension(target: Callable, arguments: tuple, keywords: dict[str, Any], device: torch.device) -> str | None:
    """What the operator says of a dimension that its first operand has not: not every meta kernel looks (`softmax`)."""
    if not arguments or not isinstance(arguments[0], torch.Tensor) or not is_harmless(target):
        return None
    rank = max(arguments[0].dim(), 1)
    given = [keywords.get("dim"), *(arguments[at] for at in _places_of_dimension(target) if at < len(arguments))]
    if all(-rank <= each < rank for each in given if type(each) is int) or _stops_a_gpu(_overloads(target)):
        return None
    try:
        with noted():
            _Trial(target, arguments, keywords, device, _one_element).run(differentiates=False)
    except IndexError as error:
        return str(error).strip().split("\n")[0]
    except Exception:  # an operand of one element may be none that it takes
        return None
    return None


@cache
def _places_of_dimension(target: Callable) -> frozenset[int]:
    """Where one of its schemas has a dimension of the first operand."""
    schemas = (overload._schema.arguments for overload in _overloads(target))
    return frozenset(
        at
        for each in schemas
        for at, argument in enumerate(each)
        if argument.name == "dim" and str(argument.real_type) == "int" and each[0].name == "self"
    )


def check_numbers(target: Callable, arguments: tuple, keywords: dict[str, Any]) -> str | None:
    """What a function that makes a tensor of numbers says of these: on a meta device it looks at none but the first of a list."""
    if any(isinstance(each, torch.Tensor) for each in arguments) or len(str(arguments)) > _FEW_ELEMENTS:
        return None
    try:
        with noted():
            target(*arguments, **{name: value for name, value in keywords.items() if name == "dtype"}, device="cpu")
    except (ValueError, TypeError, RuntimeError, OverflowError) as error:
        return str(error).strip().split("\n")[0]
    return None


def check_sum(name: str, arguments: tuple, result: Any) -> str | None:
    """What `linear` says of a bias with more rows than the product, into which eager adds it in place. Meta kernels do not."""
    if name != "linear" or len(arguments) < 2 or not all(isinstance(each, torch.Tensor) for each in (*arguments[:2], result)):
        return None
    product = (*arguments[0].shape[:-1], *arguments[1].shape[:-1])
    if tuple(result.shape) == product:
        return None
    return f"output with shape {list(product)} doesn't match the broadcast shape {list(result.shape)}"


DEVIATIONS = frozenset({"std", "std_mean", "var", "var_mean"})


def warns_of_freedom(name: str, arguments: tuple, named: dict[str, Any], result: Any) -> bool:
    """Whether a variance has no degrees of freedom, of which torch warns at each call: kernels and meta tensors do not."""
    made = result[0] if isinstance(result, tuple) and result else result
    if name not in DEVIATIONS or not isinstance(made, torch.Tensor) or not isinstance(arguments[:1] and arguments[0], torch.Tensor):
        return False
    # `std(x, unbiased)` and `std(x, dim, unbiased, keepdim)`
    flags = [each for each in arguments[1:3] if isinstance(each, bool)]
    correction = named.get("correction")
    if correction is None:
        correction = int(named.get("unbiased", flags[0] if flags else True))
    number = arguments[0].numel() // made.numel() if made.numel() else 0
    return isinstance(correction, (int, float)) and number <= correction


def _ways_to_try(
    target: Callable, arguments: tuple, keywords: dict[str, Any], device: torch.device, are_few: bool
) -> Sequence[Callable]:
    """What to put in the operands' places; nothing where the function is not to be run."""
    overloads = _overloads(target)
    harmless = is_harmless(target)
    if _operator(target) is None and isinstance(target, FunctionType) and target.__module__.startswith("torch."):
        overloads = operators_called(target, arguments, keywords) or []
        harmless = bool(overloads) and all(each.namespace == "aten" and not _reaches(each) for each in overloads)
    if not harmless or (device.type != "cpu" and _stops_a_gpu(overloads)):
        return ()
    return (_zeros, _one_element) if are_few else (_one_element,)


def _reaches(overload: torch._ops.OpOverload) -> bool:
    """Whether an operand says where in another one to read or write, which its kernel does not check."""
    return any(_UNCHECKED_OPERANDS.search(argument.name) for argument in overload._schema.arguments)


def _draws(overloads: Iterable[torch._ops.OpOverload]) -> bool:
    return any(torch.Tag.nondeterministic_seeded in overload.tags for overload in overloads)


def _stops_a_gpu(overloads: list[torch._ops.OpOverload]) -> bool:
    """Whether zeros may be what a kernel cannot go on with, of which a GPU stops for good: where there is nothing to draw from, or where
    the result is not of the size that the program says (`repeat_interleave(x, repeats, output_size=n)`)."""
    return _draws(overloads) or any(torch.Tag.dynamic_output_shape in overload.tags for overload in overloads)


def is_pointwise(target: Callable) -> bool:
    """Whether it takes a CPU tensor of no dimensions beside tensors of another device."""
    return any(torch.Tag.pointwise in overload.tags for overload in _overloads(target))


def is_repeatable(target: Callable) -> bool:
    """Whether it is an operator that draws nothing, and so gives the same again."""
    overloads = list(_overloads(target))
    return bool(overloads) and not _draws(overloads)


def single_operator(target: Callable) -> Callable | None:
    """What an operator over lists, as optimizers use them, does at each place of its lists; None for others."""
    name = getattr(_operator(target), "__name__", "")
    return getattr(torch.ops.aten, name.removeprefix("_foreach_"), None) if name.startswith("_foreach_") else None


_FUSED = "_fused_"
"""Steps of optimizers, whose rate may be a number on the processor."""


def takes_several_devices(target: Callable, name: str, tensors: list[tuple[torch.device, torch.Tensor]]) -> bool:
    """Whether an operation of this name takes these tensors, each given with its true device. Those on the CPU may be numbers."""
    if name in ACROSS_DEVICES:
        return True
    accelerators = {device for device, _ in tensors if device.type != "cpu"}
    numbers_only = all(example.dim() == 0 for device, example in tensors if device.type == "cpu")
    takes_numbers = is_pointwise(target) or _takes_one_tensor(target) or name.startswith(_FUSED)
    return len(accelerators) == 1 and numbers_only and takes_numbers


def _takes_one_tensor(target: Callable) -> bool:
    """Whether other tensors can only be numbers: sizes that are counted by tensors (`x.view(-1, count)`)."""
    schemas = [overload._schema for overload in _overloads(target) if not overload._schema.is_mutable]
    operands = [[str(argument.type) for argument in schema.arguments if "Tensor" in str(argument.type)] for schema in schemas]
    return bool(schemas) and all(len(types) < 2 and "List[Tensor]" not in types for types in operands)


def _overloads(target: Callable) -> list[torch._ops.OpOverload]:
    packet = _operator(target)
    return [] if packet is None else [getattr(packet, name) for name in packet.overloads()]


@cache
def _takes_no_floats(packet: Any) -> bool:
    """Whether an operand is of integers, or of truth values. Asked of operators alone, which stay: a graph that is called would."""
    name = getattr(packet, "__name__", "")
    if name.startswith("bitwise_") or name in ("gcd", "lcm"):
        return True
    if name in _OF_BITS:
        return True
    return any(
        argument.name in _PLACES and "Tensor" in str(argument.type)
        for overload in (packet.overloads() if packet is not None else ())
        for argument in getattr(packet, overload)._schema.arguments
    )


def _are_usual(
    target: Callable, tensors: list[torch.Tensor], arguments: tuple, keywords: dict[str, Any], device: torch.device
) -> bool:
    """Floats of one type, real numbers beside them, and no other type that is given for the result."""
    dtype = tensors[0].dtype
    usual = (dtype in (torch.float32, torch.float64) if device.type == "cpu" else dtype.is_floating_point) and all(
        tensor.dtype == dtype for tensor in tensors
    )
    asked_for = (each for each in (*arguments, *keywords.values()) if isinstance(each, torch.dtype))
    usual = usual and all(each.is_floating_point for each in asked_for)
    numbers = (*arguments, *(item for name, item in keywords.items() if type(item) is not bool or name in _numbers_of(target)))
    return usual and not any(_is_of_another_kind(number, dtype) for number in numbers)


def _is_of_another_kind(number: Any, dtype: torch.dtype) -> bool:
    """Whether it is no number of the type, or one that the type does not reach."""
    if type(number) is float:
        return torch.finfo(dtype).max < abs(number) < math.inf
    return type(number) in (bool, complex)


@cache
def _numbers_of(target: Callable) -> frozenset[str]:
    """The names of operands that are numbers: a truth value there is no flag."""
    schemas = [overload._schema for overload in _overloads(target)]
    return frozenset(argument.name for schema in schemas for argument in schema.arguments if str(argument.type) == "number")


def tensors_in(values: Iterable[Any]) -> Iterator[torch.Tensor]:
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from tensors_in(value)


def _kinds(values: Iterable[Any]) -> tuple:
    """What the answer can depend on: types and ranks of tensors, the values of everything else."""
    return tuple(
        (value.dtype, value.dim(), value.requires_grad)
        if isinstance(value, torch.Tensor)
        else (type(value), _kinds(value))
        if isinstance(value, (list, tuple))
        else (type(value), repr(value))
        for value in values
    )


class _SaysNothing(Exception):
    """The trial failed for another reason than types."""


@dataclass(frozen=True)
class _Trial:
    target: Callable
    arguments: tuple
    keywords: dict[str, Any]
    device: torch.device
    makes: Callable[[torch.Tensor, torch.device], torch.Tensor]
    """A tensor in an operand's place: of zeros, which are indices too."""

    def run(self, *, differentiates: bool) -> list[torch.dtype]:
        """The results' types. Raises what the operator raises, or its backward pass."""
        with torch.set_grad_enabled(differentiates):
            named = {name: self.made(item) for name, item in self.keywords.items()}
            result = self.target(*map(self.made, self.arguments), **named)
            if differentiates:
                results = [each for each in tensors_in((result,)) if each.requires_grad]
                torch.autograd.backward(results, [torch.ones_like(each) for each in results])
            return [each.dtype for each in tensors_in((result,))]

    def is_foreseen(self, types: list[torch.dtype]) -> bool:
        """Whether the meta kernel gives results of these types, asked as capture asks it."""
        try:
            with autocast.simulated(lambda example: self.device.type), noted() as given, known_results.used(self.target, given):
                return replace(self, device=torch.device("meta")).run(differentiates=False) == types
        except Exception:
            return True  # it says so itself

    def made(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            zeros = self.makes(value, self.device)
            # No leaf: the operator may write to it.
            return zeros.requires_grad_().clone() if value.requires_grad and torch.is_grad_enabled() else zeros
        if type(value) in (list, tuple):
            return type(value)(map(self.made, value))
        return self.device if isinstance(value, torch.device) else value


def _try(trial: _Trial, differentiates: bool) -> TypeRefusal | None:
    """What the operator says of the types, or its backward pass."""
    generator = torch.get_rng_state()
    try:
        for with_gradient in (False, True) if differentiates else (False,):
            try:
                with noted():
                    types = trial.run(differentiates=with_gradient)
                    if not trial.is_foreseen(types):
                        return TypeRefusal("the type of its result is another than torch's own meta kernel says", raises=False)
            except Exception as error:
                text = str(error).strip().split("\n")[0]
                if isinstance(error, (RuntimeError, TypeError, IndexError)) and ABOUT_TYPES.search(text):
                    return TypeRefusal(f"its backward pass raises: {text}" if with_gradient else text, raises=not with_gradient)
                if not with_gradient:
                    raise _SaysNothing from None
    finally:
        torch.set_rng_state(generator)
    return None


def _one_element(operand: torch.Tensor, device: torch.device) -> torch.Tensor:
    return torch.zeros((1,) * operand.dim(), dtype=operand.dtype, device=device)


def _zeros(operand: torch.Tensor, device: torch.device) -> torch.Tensor:
    return torch.zeros(operand.shape, dtype=operand.dtype, device=device)
