"""NumPy's numbers are constants like Python's: `x / np.sqrt(64)`, `x.reshape(-1, np.prod(shape))`.

Torch takes them for the Python numbers that `item()` gives, whichever side of an operator they stand on. Arrays are no constants:
they can be written to.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from functools import cache
from typing import Any

import torch

from dynascope.meta_kernels.torch_warnings import noted

_AGGREGATES = ("prod", "sum", "mean", "std", "var", "max", "amax", "min", "amin", "round", "clip")
_INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32")
_FLOATS = ("float16", "float32", "float64")

TYPES: frozenset[type] = frozenset()
FLOATS: frozenset[type] = frozenset()
"""Of which a number that varies may be one."""
AS_ARRAYS: frozenset[type] = frozenset()
"""Those that vary as arrays of no dimension: no floats of Python's, but torch computes with them as NumPy does."""
DTYPE_CLASSES: tuple[type, ...] = ()
DTYPE_KINDS: frozenset[type] = frozenset()
"""The classes of the types of NumPy's own numbers."""
LIMITS: tuple[type, ...] = ()
"""What says how large numbers of a type are: constants, as torch's own are."""
TENSOR_TYPES: dict[type, torch.dtype] = {}
"""Of a tensor that `torch.tensor` makes of one of NumPy's numbers."""
DTYPES = frozenset(
    (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float32, torch.float64)
)
"""Which NumPy and torch both have, and compute with alike: of arrays."""
HELD = DTYPES | {torch.uint16, torch.uint32, torch.uint64}
"""Besides, those that torch can only move and convert: tokens in a file are `uint16`."""
_ufunc: type = type(None)
_aggregates: frozenset[Any] = frozenset()
_kinds: frozenset[type] = frozenset()

IS_THERE = importlib.util.find_spec("numpy") is not None
numpy: Any = None

if IS_THERE:  # torch imports it wherever it is installed
    import numpy

    TYPES = frozenset(getattr(numpy, name) for name in (*_INTEGERS, *_FLOATS))
    FLOATS = frozenset(getattr(numpy, name) for name in _FLOATS)
    AS_ARRAYS = frozenset((numpy.float32,))
    DTYPE_CLASSES = (numpy.dtype,)
    DTYPE_KINDS = frozenset(type(numpy.dtype(code)) for code in numpy.typecodes["AllInteger"] + numpy.typecodes["AllFloat"] + "?")
    LIMITS = (numpy.finfo, numpy.iinfo)
    TENSOR_TYPES = {getattr(numpy, name): getattr(torch, name) for name in (*_INTEGERS, *_FLOATS)}
    _ufunc = numpy.ufunc
    _aggregates = frozenset(getattr(numpy, name) for name in _AGGREGATES)
    _kinds = frozenset(map(type, _aggregates))


def is_dtype(thing: Any) -> bool:
    """Whether it is one of the types that NumPy has one object of (`numpy.dtype("float32")`). Others have fields, another order of bytes
    or data of the program's, and may be written to."""
    return type(thing) in DTYPE_KINDS and thing.isbuiltin == 1


def says_type(thing: Any) -> bool:
    """Whether NumPy takes it for one of its types without asking the program: of a class of the program's own it reads `dtype`."""
    if isinstance(thing, type):
        return thing.__module__ == "builtins" or issubclass(thing, numpy.generic) and thing.__module__ == "numpy"
    return thing is None or type(thing) is str or is_dtype(thing)


@cache
def refusal_as_element(kind: type, dtype: torch.dtype) -> str | None:
    """What `torch.tensor` says of NumPy's numbers of a kind, at which it looks itself: it takes no `float32` for a whole number."""
    try:
        torch.tensor(kind(1), dtype=dtype, device="cpu")
    except (TypeError, ValueError, RuntimeError) as error:
        return str(error)
    return None


@cache
def refusal_as_item(kind: type) -> str | None:
    """What `x[i] = number` says of NumPy's numbers of a kind: only those that are floats of Python's or whole are taken."""
    if kind not in TYPES:
        return None
    try:
        torch.zeros((), device="cpu")[()] = kind(1)
    except TypeError as error:
        return str(error)
    return None


def makes_number(function: Any) -> bool:
    """Whether it computes one number of numbers and does nothing else. The program's own objects are asked nothing."""
    return is_universal(function) or (type(function) in _kinds and function in _aggregates)


def is_function(thing: Any) -> bool:
    """Whether it is a function of NumPy's that asks its arguments what it means for them."""
    return type(thing) in _kinds or is_universal(thing)


def is_universal(thing: Any) -> bool:
    """Whether it computes each element by itself (`np.log`)."""
    return type(thing) is _ufunc


def number_of(function: Callable[..., Any], arguments: tuple, keywords: dict[str, Any]) -> Any:
    """The number; None where the result is something else, or NumPy has something to say about it."""
    with noted() as given:
        result = function(*arguments, **keywords)
    return result if not given and type(result) in TYPES | {int, float, bool, numpy.bool_} else None


def is_spread(tensor: torch.Tensor) -> bool:
    """Whether one element stands at several places (`numpy.broadcast_to`): of such an array nobody may write to one of them."""
    return any(step == 0 and size > 1 for size, step in zip(tensor.shape, tensor.stride(), strict=True))


def array_of(tensor: torch.Tensor) -> Any:
    """The array on the same memory, as NumPy would have made it."""
    made = tensor.numpy()
    return numpy.broadcast_to(made, made.shape) if is_spread(tensor) else made
