"""What an instance of a subclass of dict, list or tuple holds as one: the container that the inherited methods work on.

    contents_of(machine, ModelOutput(...))     the DictValue that `OrderedDict.items` sees, whatever the class makes of `items`

The methods of the class come first, as for every object; only what it inherits from the class in C looks in here.
"""

from __future__ import annotations

import collections
import types
from typing import TYPE_CHECKING

from dynascope.capture.guard_log import is_fixed
from dynascope.capture.protocols.classes import MADE, has_python_method
from dynascope.capture.values import DictValue, InstanceValue, ListValue, TupleValue, Value
from dynascope.guards.source import ProxiedSource, mapping_behind

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine

CONTAINERS = (collections.OrderedDict, dict, list, tuple, collections.deque, types.MappingProxyType)


def base_in_c(cls: type) -> type | None:
    """The container in C that the class is one of; None for others, and where asking for the length is the user's code."""
    base = next((base for base in cls.__mro__ if base in CONTAINERS), None)
    if base is None or issubclass(cls, collections.defaultdict) or (base is collections.deque and cls is not base):
        return None
    return None if base is list and has_python_method(cls, "__len__") else base


def is_deque(contents: ListValue) -> bool:
    return contents.instance is not None and contents.instance.cls is collections.deque


def longest(contents: ListValue) -> int | None:
    """The greatest length of a deque that holds this."""
    instance = contents.instance
    return instance.arguments[0].value if instance.object is None else instance.object.maxlen


def with_attributes(machine: Machine, value: Value) -> Value:
    """The object that an OrderedDict is, where a dict has no attributes: `state_dict._metadata = ...`. Others as they are."""
    if type(value) is not DictValue or value.cls is not collections.OrderedDict:
        return value
    if value.instance is None:
        instance = InstanceValue(value.cls, value.source, value.object)
        instance.contents = value
        machine.journal.set(value, "instance", instance)
    return value.instance


def contents_of(machine: Machine, value: Value) -> DictValue | ListValue | TupleValue | None:
    """None for what is no instance of a subclass of dict, list or tuple."""
    if not isinstance(value, InstanceValue):
        return None
    if value.contents is None and value.object is not None and (base := base_in_c(value.cls)) is not None:
        if base is types.MappingProxyType and not is_fixed(value.source):
            return behind_proxy(machine, value)
        value.contents = machine.outside.contents(value, base)
    return value.contents


def behind_proxy(machine: Machine, value: InstanceValue) -> DictValue | None:
    """The dict that a proxy shows, which others may change. What the capture has made of a class itself none shows (None)."""
    mapping = mapping_behind(value.object)
    if type(mapping) not in (dict, collections.OrderedDict) or MADE in mapping or is_written(machine, mapping):
        return None
    shown = machine.outside.realize(mapping, ProxiedSource(value.source))
    value.contents = shown if isinstance(shown, DictValue) else None
    return value.contents


def is_written(machine: Machine, mapping: dict) -> bool:
    """Whether the program has set attributes of the class of which this is the dictionary."""
    return any(isinstance(owner, type) and mapping_behind(vars(owner)) is mapping for owner, _ in machine.global_writes.values())
