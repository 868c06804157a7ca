"""What a class in C, or `__slots__`, keeps of an instance outside of its dictionary.

    slot(machine, value, "name")     a member, an exception's `args`, `__dict__` as `vars(x)`, an item of `torch.return_types`
"""

from __future__ import annotations

import collections
import functools
import types
from typing import TYPE_CHECKING, Any

from dynascope.capture.protocols import overriding
from dynascope.capture.protocols.classes import has_python_method, lookup
from dynascope.capture.protocols.contents import contents_of
from dynascope.capture.protocols.presence import found_at, missing, not_in_instance
from dynascope.capture.reasons import UnsupportedAttribute
from dynascope.capture.signals import Break
from dynascope.capture.values import (
    DELETED,
    NONE,
    ConstantValue,
    DictValue,
    InstanceDictionaryValue,
    InstanceValue,
    TupleValue,
    Value,
    is_kept_apart,
    own_dictionary,
)
from dynascope.guards.guard import Equals, IsSameObject
from dynascope.guards.source import AttributeSource

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine


def slot(machine: Machine, value: Value, name: str) -> Value:
    """`__slots__` members, and the few C attributes of instances."""
    if isinstance(value, InstanceValue):
        written = value.attributes.get(name)
        if written is DELETED:
            raise missing(machine, value, name)
        if written is not None:
            return written
        if issubclass(value.cls, BaseException):
            return exception_attribute(machine, value, name)
        if name == "__dict__":
            return instance_as_dictionary(machine, value)
        if isinstance(lookup(value.cls, name), types.MemberDescriptorType):
            return slot_member(machine, value, name)
        if value.tensor is not None:
            return overriding.attribute(machine, value, name)
        if value.cls is collections.deque and name == "maxlen":
            return greatest_length(machine, value)
    if isinstance(value, DictValue) and name == "default_factory":
        return value.default_factory
    if isinstance(value, TupleValue) and (at := place_in_sequence(value.cls, name)) is not None:
        return value.items[at]
    raise Break(UnsupportedAttribute(value.python_type.__name__, name))


def greatest_length(machine: Machine, value: InstanceValue) -> Value:
    """Of a deque."""
    if value.object is None:
        return value.arguments[0]
    machine.guards.add(AttributeSource(value.source, "maxlen"), Equals(value.object.maxlen))
    return ConstantValue(value.object.maxlen)


def dictionary_given(machine: Machine, value: Value, name: str) -> DictValue | None:
    """The dictionary that the program gave an object (`self.__dict__ = shared`, `self.__dict__ = self`), where that holds attributes of
    this name. What other object's one from outside has is seen when the capture ends."""
    if not isinstance(value, InstanceValue) or is_kept_apart(value.cls, name):
        return None
    given = value.attributes.get("__dict__")
    if value.object is None or given is not None:
        return value.contents if given is value else given if isinstance(given, DictValue) else None
    return contents_of(machine, value) if is_its_own_dictionary(machine, value) else None


def is_its_own_dictionary(machine: Machine, value: InstanceValue) -> bool:
    if not issubclass(type(value.object), dict) or own_dictionary(value) is not value.object:
        return False
    machine.guards.add_pair(AttributeSource(value.source, "__dict__"), value.source, IsSameObject())
    return True


@functools.lru_cache(maxsize=1024)
def place_in_sequence(cls: type, name: str) -> int | None:
    """Which item of a tuple in C (`torch.return_types`, `time.struct_time`) has the name."""
    count = getattr(cls, "n_sequence_fields", None)
    if not isinstance(count, int) or getattr(cls, "n_fields", None) != count:
        return None
    return getattr(cls(range(count)), name)


def slot_member(machine: Machine, value: InstanceValue, name: str) -> Any:
    if value.object is not None and has_python_method(value.cls, "__getattribute__"):
        # The guard would run the user's own code.
        raise Break(UnsupportedAttribute(value.cls.__name__, name))
    if not is_set(value, name):
        if value.object is not None and has_python_method(value.cls, "__getattr__"):
            raise Break(UnsupportedAttribute(value.cls.__name__, name))
        not_in_instance(machine, value, name)
        raise missing(machine, value, name)
    return found_at(machine, lookup(value.cls, name).__get__(value.object, value.cls), AttributeSource(value.source, name))


def is_set(value: InstanceValue, name: str) -> bool:
    """Whether a slot of an object from outside holds something."""
    if value.object is None:
        return False
    try:
        lookup(value.cls, name).__get__(value.object, value.cls)
    except AttributeError:
        return False
    return True


def exception_attribute(machine: Machine, value: InstanceValue, name: str) -> Value:
    if value.object is not None:
        raise Break(UnsupportedAttribute(value.cls.__name__, name))
    if name == "args":
        return TupleValue(value.arguments)
    if name in ("__cause__", "__context__", "__traceback__"):
        return NONE
    if name == "value" and issubclass(value.cls, StopIteration):
        return value.arguments[0] if value.arguments else NONE
    raise Break(UnsupportedAttribute(value.cls.__name__, name))


def instance_as_dictionary(machine: Machine, value: InstanceValue) -> Value:
    """`vars(x)`: what the instance holds now."""
    own = own_dictionary(value)
    if own is None:
        return InstanceDictionaryValue(value, None)
    if is_its_own_dictionary(machine, value):
        return value
    before = machine.outside.realize(own, AttributeSource(value.source, "__dict__"))
    if not isinstance(before, DictValue) or before.changed:
        raise Break(UnsupportedAttribute(value.cls.__name__, "__dict__"))
    return InstanceDictionaryValue(value, before)
