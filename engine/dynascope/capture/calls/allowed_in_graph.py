"""Functions that the program has told compilers not to look into: `torch.compiler.allow_in_graph(f)`.

    f(x)       f is run on tensors that stand for x, and each function of torch's that it calls goes into the graph

They are followed as all others are, because that leaves sizes free; only where that leads to a break is the region captured again,
and f run in this way. The sizes that it asks for are assumed then, and what else it does, it does when it is captured: that is what
the program has promised.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import torch
from torch.overrides import TorchFunctionMode

from dynascope.capture.calls.arguments import Arguments, Keywords
from dynascope.capture.reasons import ForeignCall
from dynascope.capture.signals import Break
from dynascope.capture.values import (
    DictValue,
    FunctionValue,
    ListValue,
    NotConstant,
    TensorValue,
    TupleValue,
    Value,
    constant_of,
    make_tuple,
)
from dynascope.guards.guard import IdentityIs

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine


def is_allowed(function: FunctionValue) -> bool:
    """Whether the program has said so. Torch keeps that in a table of its own compiler, which is there only if somebody did."""
    rules = sys.modules.get("torch._dynamo.trace_rules")
    allowed = getattr(rules, "_allowed_callable_ids", ())
    return function.object is not None and function.source is not None and id(function.object) in allowed


def record(machine: Machine, function: FunctionValue, arguments: Arguments, keywords: Keywords) -> Value:
    machine.guards.add(function.source, IdentityIs(function.object))
    recording = _Recording(machine, function.name)
    given = [recording.real(value) for value in arguments]
    named = {name: recording.real(value) for name, value in keywords.items()}
    try:
        with recording:
            result = function.object(*given, **named)
    except Exception as error:
        raise recording.cannot(f"it ends with {type(error).__name__} where tensors stand for its arguments") from None
    return recording.value(result)


class _Recording(TorchFunctionMode):
    """Hands what the function calls to the capture. `values` are what the tensors that it sees stand for, `alive` keeps their
    identities."""

    def __init__(self, machine: Machine, name: str) -> None:
        super().__init__()
        self.machine, self.name = machine, name
        self.values: dict[int, TensorValue] = {}
        self.seen: dict[int, torch.Tensor] = {}
        self.alive: list[Any] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        machine = self.machine
        arguments = [self.value(each) for each in args]
        keywords = {name: self.value(each) for name, each in (kwargs or {}).items()}
        function = machine.outside.fixed(func, getattr(func, "__name__", "function"))
        return self.real(machine.call_now(function, arguments, keywords))

    def cannot(self, why: str) -> Break:
        return Break(ForeignCall(self.name, why))

    def real(self, value: Value) -> Any:
        """What the function sees of a value."""
        value = self.machine.realize(value)
        if isinstance(value, TensorValue):
            if id(value) not in self.seen:
                self.seen[id(value)] = stand_in = value.example.detach()
                self.values[id(stand_in)] = value
            return self.seen[id(value)]
        if isinstance(value, TupleValue):
            return make_tuple(value.cls, list(map(self.real, value.items)))
        if isinstance(value, ListValue) and value.instance is None:
            return list(map(self.real, value.items))
        if isinstance(value, DictValue) and value.instance is None:
            return {constant_of(key): self.real(item) for key, item in value.items.values()}
        known = constant_of(self.machine.known(value))
        if type(known) is not NotConstant:
            return known
        found = getattr(value, "object", None)
        if found is None or value.source is None or getattr(value, "changed", False):
            raise self.cannot("something that it is given is no constant")
        self.machine.guards.add(value.source, IdentityIs(found))
        return found

    def value(self, real: Any) -> Value:
        """What something that the function made, or was given, is to the capture."""
        if isinstance(real, torch.Tensor):
            if id(real) not in self.values:
                raise self.cannot("it works on a tensor that it is not given")
            return self.values[id(real)]
        if isinstance(real, tuple):
            return TupleValue(tuple(map(self.value, real)), type(real))
        if type(real) is list:
            return ListValue(list(map(self.value, real)))
        if type(real) is dict:
            known = self.machine.outside.fixed
            return DictValue({key: (known(key, "key"), self.value(item)) for key, item in real.items()})
        self.alive.append(real)
        return self.machine.outside.fixed(real, type(real).__name__)
