"""The tables of what known callables mean. Modules of this package fill them; `dispatch` reads them.

@meaning(len)
def length(machine, arguments, keywords): ...
"""

from __future__ import annotations

import bisect
import builtins
import importlib
import math
import operator
import pathlib
import re
import sys
from collections.abc import Callable
from types import CodeType
from typing import Any

import torch
from torch.torch_version import TorchVersion

from dynascope.capture import numpy_numbers

Meaning = Callable[[Any, list, dict], Any]

# What calling this very object does.
MEANINGS: dict[Any, Meaning] = {}
# What calling a function with this code does, given its value: functions that a decorator makes.
MEANINGS_OF_CODE: dict[CodeType, Callable[[Any, Any, list, dict], Any]] = {}
# What calling this class does.
CONSTRUCTORS: dict[type, Meaning] = {}

# What calling an instance of this class does, given the object (of a constant) or its value (of others).
CALLABLE_OBJECTS: dict[type, Callable[[Any, Any, list, dict], Any]] = {}


# Modules that a program may import for itself, and where what their functions mean is said.
IMPORTED_LATER = {"torch.nn.attention.flex_attention": "dynascope.capture.calls.flex_attention"}


def learn_imported() -> None:
    for name in [name for name in IMPORTED_LATER if name in sys.modules]:
        importlib.import_module(IMPORTED_LATER.pop(name))


def object_meaning(*classes: type) -> Callable[[Any], Any]:
    def register(function: Any) -> Any:
        CALLABLE_OBJECTS.update(dict.fromkeys(classes, function))
        return function

    return register


def meaning(*callables: Any) -> Callable[[Meaning], Meaning]:
    def register(function: Meaning) -> Meaning:
        for thing in callables:
            (CONSTRUCTORS if isinstance(thing, type) else MEANINGS)[thing] = function
        return function

    return register


def class_method_meaning(cls: type, name: str) -> Callable[[Meaning], Meaning]:
    """For a class method, which takes the class that it is called through as its first argument. It may be written in
    Python or in C: torch's go from one to the other."""
    entry = vars(cls)[name]
    return meaning(getattr(entry, "__func__", entry))


# Classes whose methods, on constants, have no effects.
FOLDABLE_TYPES = frozenset(
    {int, float, bool, complex, str, bytes, tuple, frozenset, range, slice, type(None), type(...)}
    | {torch.dtype, torch.device, torch.layout, torch.memory_format, torch.Size, torch.finfo, torch.iinfo}
    | {torch._C._SDPBackend, re.Pattern, re.Match, type(sys.version_info), TorchVersion}
    | {pathlib.Path, pathlib.PurePath, pathlib.PurePosixPath, pathlib.PureWindowsPath}
    | numpy_numbers.TYPES
    | {*numpy_numbers.LIMITS}
)
FOLDABLE = frozenset(
    {
        *(
            getattr(builtins, name)
            for name in [
                "abs",
                "ascii",
                "bin",
                "chr",
                "divmod",
                "format",
                "hash",
                "hex",
                "oct",
                "ord",
                "pow",
                "repr",
                "round",
            ]
        ),
        *(function for name, function in vars(math).items() if callable(function)),
        *(
            function
            for name, function in vars(operator).items()
            if callable(function) and not isinstance(function, type)
        ),
        bisect.bisect_left,
        bisect.bisect_right,
        torch.is_grad_enabled,
        torch.is_inference_mode_enabled,
        torch.get_default_dtype,
        torch.is_autocast_enabled,
        torch.is_autocast_cpu_enabled,
        torch.get_autocast_dtype,
        torch.is_autocast_cache_enabled,
        torch.jit.is_scripting,
        torch.jit.is_tracing,
        torch._C._get_tracing_state,
        torch._C._nn._parse_to,
        torch._C._is_tracing if hasattr(torch._C, "_is_tracing") else torch._C._get_tracing_state,
        torch.are_deterministic_algorithms_enabled,
        torch.cuda.is_available,
        torch.promote_types,
        torch.can_cast,
        torch._C._has_torch_function_unary if hasattr(torch._C, "_has_torch_function_unary") else len,
    }
    - {operator.setitem, operator.delitem, operator.iconcat, hash, getattr(operator, "call", hash)}
)
