"""What a value is as a key: a hashable object that is equal for equal keys.

A constant is itself; an object compared by identity is its value; a tuple is the tuple of its items' keys.
"""

from __future__ import annotations

import dataclasses
import types
import weakref
from typing import TYPE_CHECKING, Any

import torch

from dynascope.capture.protocols import number_keys
from dynascope.capture.protocols.attributes import get_now
from dynascope.capture.protocols.classes import has_python_method, lookup
from dynascope.capture.protocols.contents import contents_of
from dynascope.capture.protocols.overriding import PLAIN_TENSORS
from dynascope.capture.reasons import ForeignCall, ForeignValue
from dynascope.capture.signals import Break, Raised
from dynascope.capture.values import (
    AddressValue,
    ConstantValue,
    DictValue,
    FunctionValue,
    InstanceValue,
    ListValue,
    SetValue,
    SymbolicNumber,
    TensorValue,
    TupleValue,
    Value,
    WeakReferenceValue,
)
from dynascope.frame.versions import RUNNING
from dynascope.guards.source import ReferentSource

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine


def dictionary_key(machine: Machine, dictionary: DictValue, value: Value) -> Any:
    """The key of a dict: a number that varies stays one, told apart from the others by relations that are relied on."""
    value = machine.realize(value)
    if isinstance(value, SymbolicNumber) or machine.number_keys.varying:
        number_keys.note_keys(machine, dictionary)
    varying = number_keys.varying_key(machine, value)
    if varying is None:
        return hash_key(machine, value)
    if varying.hint > SMALL:
        machine.has_number_keys = True
        check_addresses(machine)
    return varying


def hash_key(machine: Machine, value: Value) -> Any:
    value = machine.realize(value)
    if isinstance(value, SymbolicNumber):
        value = machine.known(value)
    if isinstance(value, AddressValue):
        if not isinstance(value.of, ConstantValue):  # whose address only `copy` asks for, and keeps nothing under it
            machine.note_key(value.of)
        machine.has_address_keys = True
        check_addresses(machine)
        return AddressValue, value.of
    if isinstance(value, ConstantValue):
        note_number(machine, value.value)
        return checked(machine, value.value)
    if isinstance(value, InstanceValue) and all(lookup(value.cls, name) is vars(tuple)[name] for name in ("__hash__", "__eq__")):
        value = contents_of(machine, value) or value
    if isinstance(value, TupleValue):
        return tuple(hash_key(machine, item) for item in value.items)
    if isinstance(value, SetValue) and value.cls is frozenset:
        return frozenset(value.items)
    if isinstance(value, (ListValue, DictValue, SetValue)):
        raise refusal(machine, value.python_type, f"unhashable type: {value.python_type.__name__!r}")
    if (of := referent_of(machine, value)) is not None and not issubclass(of.python_type, torch.Tensor):
        return weakref.ReferenceType, hash_key(machine, of)
    if isinstance(value, (TensorValue, FunctionValue)) or hashes_by_identity(value):
        machine.note_key(value)
        return value
    if isinstance(value, InstanceValue) and (fields := compared_fields(value.cls)) is not None:
        return DATACLASS, value.cls, tuple(hash_key(machine, get_now(machine, value, name)) for name in fields)
    raise Break(ForeignValue(value.python_type.__name__, machine.expression()))


SMALL = 1 << 16
"""No object lies as low."""


def note_number(machine: Machine, key: Any) -> None:
    """The program may have asked for the address of an object before, and looks for it now: an address that only the run knows is
    found under no number."""
    number_keys.note(machine, key)
    if type(key) is int and key > SMALL and key not in machine.addresses:
        machine.has_number_keys = True
        check_addresses(machine)


def check_addresses(machine: Machine) -> None:
    if machine.has_address_keys and machine.has_number_keys:
        raise Break(ForeignCall("id", "the address may be a number that the program knows already"))


def referent_of(machine: Machine, value: Value) -> Value | None:
    """Weak references are equal where their objects are, while these live; else None."""
    if isinstance(value, WeakReferenceValue):
        return value.of
    is_outside = isinstance(value, InstanceValue) and value.cls is weakref.ReferenceType and value.source is not None
    if not is_outside or value.object() is None:
        return None
    return machine.outside.realize(value.object(), ReferentSource(value.source))


def checked(machine: Machine, constant: Any) -> Any:
    try:
        hash(constant)
    except TypeError as error:
        raise refusal(machine, type(constant), *error.args) from None
    if isinstance(constant, (float, complex)) and constant != constant:
        # NaN is found by its identity.
        raise Break(ForeignValue("NaN", machine.expression()))
    return constant


def refusal(machine: Machine, python_type: type, *words: Any) -> Raised | Break:
    """Where Python says what the key was for, the words are left to it."""
    if RUNNING.key_refusal_tells_use:
        return Break(ForeignValue(python_type.__name__, machine.expression()))
    return machine.throw(TypeError, *words)


DATACLASS = object()
"""What the key of a frozen dataclass begins with, so that it is none of a tuple's."""


def compared_fields(cls: type) -> list[str] | None:
    """The fields that two objects of a frozen dataclass are equal by, where `dataclasses` made its methods for that; else None."""
    made = getattr(cls, "__dataclass_params__", None)
    if made is None or "__dataclass_params__" not in vars(cls) or not (made.frozen and made.eq):
        return None
    for name in ("__hash__", "__eq__"):
        method = vars(cls).get(name)
        if not isinstance(method, types.FunctionType) or method.__code__.co_filename != "<string>":
            return None
    fields = dataclasses.fields(cls)
    return [field.name for field in fields if field.compare] if all(field.hash is None for field in fields) else None


def hashes_by_identity(value: Value) -> bool:
    if not isinstance(value, InstanceValue):
        return False
    if value.cls in PLAIN_TENSORS:  # one without elements
        return True
    return not has_python_method(value.cls, "__hash__") and lookup(value.cls, "__eq__") is object.__eq__
