"""`torch.compile(f)` and ours, called in code that is compiled already: what they give means `f`, as what is compiled outside does.

    step = torch.compile(f, mode="max-autotune")
    step(x)                              f(x), part of the graph
    self.step = step                     made by the same call when the graph has run

They have no other effect than to make something, so it is made where it leaves the graph, and not at all where it does not. What
else is asked of it than to be called depends on whose it is, and is left to Python.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from dynascope.capture.calls.arguments import Arguments, Keywords, is_none
from dynascope.capture.calls.registry import meaning
from dynascope.capture.protocols import attributes
from dynascope.capture.protocols.classes import is_callable
from dynascope.capture.reasons import ForeignCall, UnsupportedAttribute
from dynascope.capture.signals import Break
from dynascope.capture.values import (
    CompilationValue,
    FunctionValue,
    InstanceValue,
    MethodValue,
    PartialValue,
    Value,
    constant_of,
)

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine

COMPILES = "__dynascope_compiles__"
"""What our own functions that compile what they are given are marked with, also where they take the place of torch's."""

NAMES = {
    "backend": ("inductor", "eager", "aot_eager", "dynascope"),
    "mode": ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"),
}
"""Those that are sure to be known."""
TARGETS = (FunctionValue, MethodValue, PartialValue, CompilationValue)


def compiles(function: FunctionValue) -> bool:
    return function.object is not None and getattr(function.object, COMPILES, False)


@meaning(torch.compile)
def compile_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    return called(machine, machine.outside.fixed(torch.compile, "torch.compile"), arguments, keywords)


def called(machine: Machine, function: Value, arguments: Arguments, keywords: Keywords) -> Value:
    """What it gives for a target; without one a function that takes it, as a decorator does."""
    first = ("model", "target")
    settings = {name: machine.realize(value) for name, value in keywords.items() if name not in first}
    if len(arguments) > 1 or not are_known(settings):
        raise Break(ForeignCall("compile", "its settings may be refused when it is called"))
    given = [machine.realize(value) for value in (*arguments, *(keywords[name] for name in first if name in keywords))]
    if not given or is_none(given[0]):
        return PartialValue(function, (), settings)
    target = given[0]
    is_module = isinstance(target, InstanceValue) and issubclass(target.cls, torch.nn.Module)
    if len(given) > 1 or not (isinstance(target, TARGETS) or is_module) or not is_callable(target):
        raise Break(ForeignCall("compile", f"it is given a {target.python_type.__name__}"))
    return CompilationValue(function, target, settings)


def are_known(settings: Keywords) -> bool:
    """Whether they are sure to be taken."""
    known = {name: constant_of(value) for name, value in settings.items() if not is_none(value)}
    if any(type(known.get(name)) is str and known[name] not in names for name, names in NAMES.items()):
        return False
    return not {"mode", "options"} <= {*known}


def call_compilation(machine: Machine, value: CompilationValue, arguments: Arguments, keywords: Keywords) -> Any:
    return machine.call(value.target, arguments, keywords)


def attribute(machine: Machine, value: CompilationValue, name: str) -> Any:
    raise Break(UnsupportedAttribute("compiled function", name))


attributes.READERS[CompilationValue] = attribute
