"""What a program asks about functions: `inspect.signature`, `functools.wraps` and their like, answered from what is guarded.

A signature follows from the code and the defaults of a function and of what it wraps: each of these is guarded, and the object
itself is made anew where the program keeps it.
"""

from __future__ import annotations

import inspect
import types
from typing import TYPE_CHECKING, Any

from dynascope.capture.calls.arguments import Arguments, Keywords
from dynascope.capture.calls.registry import meaning
from dynascope.capture.guard_log import can_change
from dynascope.capture.protocols import attributes
from dynascope.capture.protocols.classes import has_python_method
from dynascope.capture.reasons import ForeignCall
from dynascope.capture.signals import Break
from dynascope.capture.values import ConstantValue, FunctionValue, InstanceValue, MethodValue, Value
from dynascope.guards.guard import Equals, HasNoKey, IdentityIs
from dynascope.guards.source import AttributeSource, DictionaryAttributeSource, MadeSource

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine

PLAIN = (type(None), bool, int, float, str, bytes)


@meaning(inspect.signature)
def signature(machine: Machine, arguments: Arguments, keywords: Keywords) -> Any:
    """Of a function or method from outside, of an object that is called by a method of its class, or of something in C or of the
    libraries."""
    asked = machine.realize(arguments[0])
    if keywords or len(arguments) != 1:
        raise refusal()
    real = guarded(machine, asked)
    try:
        found = inspect.signature(real)
    except (TypeError, ValueError) as error:
        raise machine.throw(type(error), *error.args) from None
    return machine.outside.realize(found, MadeSource(found, inspect.signature, (asked,)))


def refusal() -> Break:
    return Break(ForeignCall("inspect.signature", "what it is asked about may have another signature at the next call"))


def guarded(machine: Machine, asked: Value) -> Any:
    """The real callable, with guards on all that its signature says."""
    if isinstance(asked, MethodValue):
        return bound(asked, guarded(machine, machine.realize(asked.function)))
    if isinstance(asked, FunctionValue) and asked.object is not None:
        guard_function(machine, asked)
        return asked.object
    if isinstance(asked, ConstantValue) and callable(asked.value) and not can_change(asked.value):
        return asked.value
    if isinstance(asked, InstanceValue) and has_python_method(asked.python_type, "__call__"):
        if any(attributes.find(machine, asked, name) is not None for name in SAY_ANOTHER):
            raise refusal()
        if isinstance(method := attributes.special(machine, asked, "__call__"), MethodValue):
            return guarded(machine, method)
    raise refusal()


SAY_ANOTHER = ("__signature__", "__wrapped__", "__code__", "_partialmethod", "__partialmethod__")
"""Attributes of a callable object that `inspect` reads before it asks the class for `__call__`."""


def bound(asked: MethodValue, function: Any) -> Any:
    """Which object it is says nothing of the signature of a method in Python: of one that is made inside none is there yet."""
    instance = asked.instance.value if isinstance(asked.instance, ConstantValue) else getattr(asked.instance, "object", None)
    if isinstance(function, types.FunctionType):
        return types.MethodType(function, asked if instance is None else instance)
    if instance is None or not hasattr(function, "__get__"):
        raise refusal()
    return function.__get__(instance)


def guard_function(machine: Machine, function: FunctionValue) -> None:
    real, source = function.object, function.source
    defaults = (*(real.__defaults__ or ()), *(real.__kwdefaults__ or {}).values())
    if not all(type(default) in PLAIN for default in defaults):
        raise refusal()
    for name, found in (("__defaults__", real.__defaults__), ("__kwdefaults__", real.__kwdefaults__)):
        place = AttributeSource(source, name)
        machine.guards.add(place, IdentityIs(None) if found is None else Equals(found))
    own = vars(real)
    for name in ("__signature__", "__wrapped__"):
        if name not in own:
            machine.guards.add(AttributeSource(source, "__dict__"), HasNoKey(name))
    if "__signature__" in own:
        raise refusal()
    if "__wrapped__" in own:
        wrapped = machine.outside.realize(own["__wrapped__"], DictionaryAttributeSource(source, "__wrapped__"))
        guarded(machine, wrapped)
