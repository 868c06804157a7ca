"""What was there and what was not: guards for programs that ask.

    getattr(x, "scale", 1)      no scale: `x` has no key "scale", and its class has no attribute "scale"
    return x.scale              a scale: `x.scale` is there, whatever it is

A name that is not there has no value to be guarded, and one whose value nobody looks at has no guard either; both decide
what Python looks at next (the class, `__getattr__`) and what a program does that handles AttributeError.
"""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

from dynascope.capture.protocols.class_names import name_in_errors
from dynascope.capture.protocols.classes import MISSING, has_python_method, lookup
from dynascope.capture.reasons import UnsupportedAttribute
from dynascope.capture.signals import Break, Raised
from dynascope.capture.values import DictValue, InstanceValue, LazyValue, Value, own_dictionary
from dynascope.guards.guard import HasNoAttribute, HasNoKey, IsThere
from dynascope.guards.source import AttributeSource, DictionaryAttributeSource, Source

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine

MODULE_TABLES = ("_parameters", "_buffers", "_modules")


def found_at(machine: Machine, thing: Any, source: Source) -> LazyValue:
    """What was found at a place. Where nothing looks at it until the capture ends, that it is there is guarded then."""
    value = machine.outside.lazy(thing, source)
    machine.outside.found.append(value)
    return value


def guard_found(machine: Machine) -> None:
    """What is looked at has guards that fail where the place holds nothing any more."""
    for value in machine.outside.found:
        if value.source not in machine.outside.by_source:
            machine.guards.add(value.source, IsThere())


def is_absent(machine: Machine, value: Value, name: str) -> None:
    """Neither the object nor its class has the name."""
    if isinstance(value, InstanceValue):
        not_in_instance(machine, value, name)
        not_in_class(machine, value.cls, name, value)
    elif value.source is not None:
        machine.guards.add(value.source, HasNoAttribute(name))


def not_in_instance(machine: Machine, value: InstanceValue, name: str) -> None:
    if value.source is None or name in value.attributes or has_keys_guarded(value):
        return
    if isinstance(lookup(value.cls, name), types.MemberDescriptorType):
        if has_python_method(value.cls, "__getattribute__"):
            raise Break(UnsupportedAttribute(value.cls.__name__, name))
        machine.guards.add(value.source, HasNoAttribute(name))
    elif lookup(value.cls, "__dict__") is not MISSING:
        machine.guards.add(AttributeSource(value.source, "__dict__"), HasNoKey(name))


def has_keys_guarded(value: InstanceValue) -> bool:
    """Whether the dictionary of the object is the object itself, or one met before, and was looked into: its keys are guarded."""
    if value.object is not None and isinstance(value.attributes.get("__dict__"), DictValue):
        return True
    return value.contents is not None and issubclass(type(value.object), dict) and own_dictionary(value) is value.object


def not_in_class(machine: Machine, cls: type, name: str, instance: Value | None = None) -> None:
    """Looking it up notes that the class has no such name, and so for its own class where that was asked."""
    lookup(cls, name)
    if instance is None:
        lookup(type(cls), name)
        lookup(type(cls), "__getattr__")


def not_in_tables(machine: Machine, module: InstanceValue, name: str) -> None:
    """An nn.Module has no parameter, buffer or submodule of this name."""
    if module.source is None:
        return
    for table in MODULE_TABLES:
        if table not in module.attributes:
            machine.guards.add(DictionaryAttributeSource(module.source, table), HasNoKey(name))


def missing(machine: Machine, value: Value, name: str) -> Raised:
    kind = name_in_errors(value.python_type)
    return machine.throw(AttributeError, f"{kind!r} object has no attribute {name!r}")
