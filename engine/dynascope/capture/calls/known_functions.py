"""Python functions that give the same for the same arguments for as long as the process runs: where their arguments are known
they are computed when the graph is captured, and otherwise followed like any other.

    re.sub(r"\\.\\d+", "", name)    torch.__version__ >= "2.1"    os.path.join(folder, "log")    platform.system()

Their code asks C for what it cannot be read from, or fills caches of its own, which nobody else sees.
"""

from __future__ import annotations

import collections
import importlib.metadata
import importlib.util
import json
import os
import pathlib
import platform
import re
import statistics
import struct
import textwrap
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from torch.torch_version import TorchVersion

from dynascope.capture.calls import python
from dynascope.capture.calls.arguments import Arguments, Keywords
from dynascope.capture.calls.number_calls import deque_contents, number_call
from dynascope.capture.calls.pure import compute, value_of
from dynascope.capture.calls.registry import meaning
from dynascope.capture.reasons import ForeignCall
from dynascope.capture.signals import Break
from dynascope.capture.values import NotConstant, Value, constant_of

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine

_NAMES: dict[Any, str] = {
    re: "compile match fullmatch search sub subn split findall escape",
    os.path: "join dirname basename split splitext isabs normpath normcase commonprefix",
    platform: "system machine release version node processor python_version python_implementation",
    textwrap: "dedent indent fill shorten wrap",
    json: "dumps loads",
    struct: "calcsize pack unpack unpack_from",
    statistics: "mean fmean geometric_mean harmonic_mean median median_low median_high mode pstdev pvariance stdev variance "
    "correlation covariance linear_regression quantiles",
    TorchVersion: "_cmp_wrapper",
    os: "fspath",
    **{base: " ".join(vars(base)) for base in pathlib.PurePath.__mro__ if base is not object},
}
"""`os.path.abspath` and `expanduser` look at the process, `Path.exists` at the disk."""


def _functions() -> list[Callable[..., Any]]:
    named = [vars(owner).get(name) for owner, names in _NAMES.items() for name in names.split()]
    return [each for each in named if isinstance(each, (types.FunctionType, types.BuiltinFunctionType))]


def _constant(machine: Machine, value: Value) -> Any:
    value = machine.realize(value)
    if (held := deque_contents(machine, value)) is None:
        return constant_of(value)
    items = constant_of(held)
    return items if type(items) is NotConstant else collections.deque(items)


def _computed(function: Callable[..., Any]) -> None:
    @meaning(function)
    def call(machine: Machine, arguments: Arguments, keywords: Keywords) -> Any:
        if (varying := number_call(machine, function, arguments, keywords)) is not None:
            return varying
        known = [_constant(machine, each) for each in arguments]
        named = {name: _constant(machine, each) for name, each in keywords.items()}
        if any(type(each) is NotConstant for each in (*known, *named.values())):
            if isinstance(function, types.BuiltinFunctionType):
                raise Break(ForeignCall(function.__name__, "what it is asked about is not known"))
            return python.enter(machine, machine.outside.fixed(function, function.__name__), list(arguments), keywords)
        return value_of(compute(machine, function, tuple(known), named).value)


for each in _functions():
    _computed(each)


def _about_packages(function: Callable[..., Any]) -> None:
    """What is installed stays so while the process runs. Of a part of a package (`a.b`) the question imports the package."""

    @meaning(function)
    def call(machine: Machine, arguments: Arguments, keywords: Keywords) -> Any:
        known = [constant_of(machine.known(each)) for each in arguments]
        if keywords or len(known) != 1 or type(known[0]) is not str or "." in known[0]:
            return python.enter(machine, machine.outside.fixed(function, function.__name__), list(arguments), keywords)
        found = compute(machine, function, (known[0],))
        return found if found.value is None or type(found.value) is str else machine.outside.fixed(found.value, function.__name__)


for each in (importlib.util.find_spec, importlib.metadata.metadata, importlib.metadata.version):
    _about_packages(each)
