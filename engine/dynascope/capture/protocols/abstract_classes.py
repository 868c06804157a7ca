"""What abstract classes say of others, which may be something else at the next call (PEP 3119, PEP 544).

    P.register(A)              A counts as a subclass of P from now on, and nothing of A or P is another
    a.go = ...                 what a protocol asks its instances for

A class that has the abstract one among its bases is a subclass of it for good. Of two classes of libraries none is expected to be
registered with the other later.
"""

from __future__ import annotations

import typing
from abc import ABCMeta
from typing import TYPE_CHECKING, Any

from dynascope.capture.places import is_library_name
from dynascope.capture.protocols.classes import MISSING, class_source, is_data_descriptor, is_made, lookup
from dynascope.capture.reasons import ForeignValue
from dynascope.capture.signals import Break
from dynascope.capture.values import InstanceValue, Value
from dynascope.guards.guard import CountsAs
from dynascope.guards.source import ConstantSource, Source

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine


def guard_answer(machine: Machine, cls: type, asked: Any, value: Value | None = None) -> None:
    """That `asked`, a class or classes, says of `cls`, or of its instance, what it says now."""
    for each in _classes_in(asked):
        if not isinstance(each, ABCMeta) or each in cls.__mro__ or is_made(cls) or is_made(each):
            continue
        if getattr(each, "_is_protocol", False) and isinstance(value, InstanceValue):
            _guard_instance(machine, value, each)
        elif not (is_library_name(cls.__module__) and is_library_name(each.__module__)):
            _guard(machine, class_source(machine, cls, value), each, CountsAs(issubclass(cls, each), of_instances=False))


def _guard_instance(machine: Machine, value: InstanceValue, protocol: type) -> None:
    """Where asking for a member runs no code, which a guard must not."""
    if value.object is None or value in machine.written or any(map(is_data_descriptor, _members_of(value.python_type, protocol))):
        raise Break(ForeignValue(protocol.__name__, machine.expression()))
    _guard(machine, value.source, protocol, CountsAs(isinstance(value.object, protocol), of_instances=True))


def _guard(machine: Machine, place: Source, asked: type, predicate: CountsAs) -> None:
    machine.guards.add_pair(place, ConstantSource(asked.__qualname__, asked), predicate)


def _members_of(cls: type, protocol: type) -> list[Any]:
    names = getattr(protocol, "__protocol_attrs__", None)
    if names is None:  # before CPython 3.12
        names = typing._get_protocol_attrs(protocol)
    return [entry for name in names if (entry := lookup(cls, name)) is not MISSING]


def _classes_in(asked: Any) -> list[Any]:
    parts = asked if isinstance(asked, tuple) else typing.get_args(asked)
    return [each for part in parts for each in _classes_in(part)] if parts else [asked]
