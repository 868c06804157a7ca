"""Classes as objects: method resolution, and the members a class gives to its instances.

lookup(C, "method")       the raw entry in the first class of C's resolution order that has one
member(machine, C, name)  that entry as a value, guarded if users can change it
"""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

from dynascope.capture.places import FUNCTION_TYPES, is_library_name
from dynascope.capture.reasons import ClassComparesItself, UnsupportedAttribute
from dynascope.capture.signals import Break
from dynascope.capture.values import (
    HEAP_TYPE,
    CompilationValue,
    ConstantValue,
    DescriptorValue,
    FunctionValue,
    MethodValue,
    PartialValue,
    TupleValue,
    Value,
)
from dynascope.capture.world import note, note_type
from dynascope.frame.versions import RUNNING
from dynascope.guards.source import (
    AttributeSource,
    ConstantSource,
    DictionaryAttributeSource,
    ItemSource,
    Source,
    TypeSource,
)
from dynascope.guards.varied import number_of_class
from dynascope.guards.world import ABSENT, look_up

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine

MISSING = object()
METHOD_DESCRIPTOR = 1 << 17
"""The flag of classes whose objects are bound as functions are: `obj.method(x)` is `type(obj).method(obj, x)` (PEP 590)."""
MADE = "__dynascope_made__"
"""Marks a class that the program makes while it is captured (`calls.classes_made`): nobody else has it, so nothing is assumed of it."""


OWN_CLASS = object.__dict__["__class__"]
"""What `x.__class__` asks, unless a class of the program's has another answer."""


def is_made(cls: Any) -> bool:
    return isinstance(cls, type) and MADE in cls.__dict__


def lookup(cls: type, name: str) -> Any:
    """The raw entry (no descriptor called), or MISSING. Noted; of what users' own classes define, which is guarded where it is looked at,
    the type: what Python makes of an entry follows from that."""
    if MADE in cls.__dict__:
        return lookup_in_made(cls, name)
    for base in cls.__mro__:
        if name in base.__dict__:
            entry = base.__dict__[name]
            if is_noted(base, entry):
                note(cls, name, entry)
            else:
                note_type(cls, name, entry)
            return entry
    note(cls, name, ABSENT)
    return MISSING


def refuse_own_comparisons(machine: Machine, cls: type) -> None:
    """Of a class that an object is of, that is called or asked for what it has: types are compared and looked up all over a capture, and
    a metaclass's `__eq__` or `__hash__` must neither run there nor be believed."""
    metaclass = type(cls)
    if metaclass is not type and (metaclass.__eq__ is not type.__eq__ or metaclass.__hash__ is not type.__hash__):
        raise Break(ClassComparesItself(cls.__name__, metaclass.__name__, machine.expression()))


def is_callable(value: Value) -> bool:
    if isinstance(value, ConstantValue):
        return callable(value.value)
    kinds = (FunctionValue, MethodValue, PartialValue, CompilationValue)
    return isinstance(value, kinds) or lookup(value.python_type, "__call__") is not MISSING


def lookup_in_made(cls: type, name: str) -> Any:
    """What its bases have is looked up in each of them, and so noted; which comes first is Python's order."""
    if name in cls.__dict__:
        return cls.__dict__[name]
    for base in cls.__bases__:
        lookup(base, name)
    return next((base.__dict__[name] for base in cls.__mro__[1:] if name in base.__dict__), MISSING)


def made_entry(machine: Machine, cls: type, name: str) -> Value | None:
    """What the program put into a class that it made, where the class has it from there."""
    owner = owner_of(cls, name)
    return machine.classes[owner][name] if is_made(owner) else None


def counted_in_class(machine: Machine, cls: type, name: str) -> Source | None:
    """Where a library's class holds a number that was seen to change (`RemovableHandle.next_id`): of which the type alone is noted."""
    if type(cls) is not type or type(vars(cls).get(name)) is not int:
        return None
    source = number_of_class(cls, name)
    if source not in machine.options.symbolic:
        return None
    note_type(cls, name, vars(cls)[name])
    return source


def is_noted(owner: type, entry: Any) -> bool:
    """A user's function or plain value has guards of its own as soon as anybody looks at it. A function in C is taken as it is."""
    kind = type(entry)
    if kind is types.FunctionType:
        return is_library_name(owner.__module__)
    return kind is types.BuiltinFunctionType or hasattr(kind, "__get__") or is_library_name(owner.__module__)


def owner_of(cls: type, name: str) -> type:
    return next(base for base in cls.__mro__ if name in base.__dict__)


def has_python_method(cls: type, name: str) -> bool:
    """Whether a special method is the program's own: a function, or whatever else it wrote there in its place."""
    entry = lookup(cls, name)
    return entry is not MISSING and not isinstance(entry, NATIVE)


def has_own_method(value: Value, *names: str) -> bool:
    """Whether a fixed object (a class with a metaclass, a member of an enum, a named tuple) has one of these special methods from the
    program: it is followed then as any object's is. What the library's own `Enum` and `EnumType` do is computed."""
    if type(value) not in (ConstantValue, TupleValue):
        return False
    kind = value.python_type
    return bool(kind.__flags__ & HEAP_TYPE) and any(_is_own(kind, name) for name in names)


def _is_own(kind: type, name: str) -> bool:
    return has_python_method(kind, name) and not is_library_name(owner_of(kind, name).__module__)


NATIVE = (
    *(types.WrapperDescriptorType, types.MethodDescriptorType, types.ClassMethodDescriptorType),
    *(types.GetSetDescriptorType, types.MemberDescriptorType, types.BuiltinFunctionType),
)
"""What code in C puts into classes."""


def acts_as(entry: Any, kind: type, method: str = "__get__") -> bool:
    """Whether an entry does what `property`, `classmethod` or `staticmethod` does: subclasses of these may have their own `__get__`."""
    return issubclass(type(entry), kind) and look_up(type(entry), method) is vars(kind)[method]


def is_data_descriptor(entry: Any) -> bool:
    kind = type(entry)
    return lookup(kind, "__set__") is not MISSING or lookup(kind, "__delete__") is not MISSING


OF_EVERY_CLASS = frozenset(name for cls in (object, type) for name, entry in vars(cls).items() if is_data_descriptor(entry))
"""What `type` itself says of a class, whatever that has: its `__name__`, `__doc__`, `__dict__`."""


def class_source(machine: Machine, cls: type, instance: Value | None = None) -> Source:
    """Where the class is found: the first instance or name that led to it."""
    known = machine.outside.by_identity.get(id(cls))
    if known is not None and known.source is not None:
        return known.source
    if instance is not None and instance.source is not None:
        return TypeSource(instance.source)
    return ConstantSource(f"{cls.__qualname__}@{id(cls)}", cls)


def member_source(machine: Machine, cls: type, name: str, instance: Value | None) -> Source:
    """The entry's place. Those of torch's and the standard library's classes are noted as they are looked up."""
    owner = owner_of(cls, name)
    cls = owner if is_made(cls) else cls
    if is_library_name(owner.__module__):
        entry = owner.__dict__[name]
        return ConstantSource(f"{owner.__qualname__}.{name}@{id(entry)}", entry)
    key = (cls, name)
    source = machine.member_sources.get(key)
    if source is None:
        if is_hidden_by_metaclass(cls, name):
            source = entry_source(owner, name)
        else:
            source = AttributeSource(class_source(machine, cls, instance), name)
        machine.member_sources[key] = source
    return source


def is_hidden_by_metaclass(cls: type, name: str) -> bool:
    """Whether `cls.name` is another thing than instances find: `__name__`, `__doc__`, a property of the class's class."""
    if type(cls) is type:
        return name in OF_EVERY_CLASS
    entry = lookup(type(cls), name)
    return entry is not MISSING and is_data_descriptor(entry) or has_python_method(type(cls), "__getattribute__")


def entry_source(owner: type, name: str) -> Source:
    """The place of what the class's dictionary has, as it is."""
    place = ConstantSource(f"{owner.__qualname__}@{id(owner)}", owner)
    return ItemSource(AttributeSource(place, "__dict__"), name)


def descriptor_source(machine: Machine, cls: type, name: str, instance: Value | None) -> Source:
    """The place of a descriptor itself, which an attribute of its class would ask for what it gives."""
    owner = owner_of(cls, name)
    if is_library_name(owner.__module__) or is_made(owner):
        return member_source(machine, cls, name, instance)
    return entry_source(owner, name)


def member(machine: Machine, cls: type, name: str, instance: Value | None = None) -> Value:
    """A class's entry as a value, as `cls.name` would give it for functions and plain objects."""
    entry = lookup(cls, name)
    if (made := made_entry(machine, cls, name)) is not None:
        return made.parts[0] if isinstance(made, DescriptorValue) else machine.realize(made)
    source = member_source(machine, cls, name, instance)
    is_class_method, is_static_method = acts_as(entry, classmethod), acts_as(entry, staticmethod)
    if (is_class_method or is_static_method) and not isinstance(source, ConstantSource):
        if is_class_method:
            return machine.outside.realize(entry.__func__, AttributeSource(source, "__func__"))
        return machine.outside.realize(entry.__func__, source)
    if is_class_method or is_static_method:
        return machine.outside.fixed(entry.__func__, name)
    return machine.outside.realize(entry, source)


def of_class_method(machine: Machine, cls: type, name: str, entry: classmethod, given: Value) -> Any:
    """What a class method's `__get__` gives for the class `given`: a method, or what `__get__` of the thing that it wraps gives."""
    wrapped = entry.__func__
    kind = type(wrapped)
    is_plain = not hasattr(kind, "__get__") or kind in FUNCTION_TYPES or kind.__flags__ & METHOD_DESCRIPTOR
    if is_plain or not RUNNING.class_methods_chain or made_entry(machine, cls, name) is not None:
        return MethodValue(member(machine, cls, name), given)
    if not acts_as(wrapped, property) or wrapped.fget is None:
        raise Break(UnsupportedAttribute(cls.__name__, name))
    place = AttributeSource(AttributeSource(entry_source(owner_of(cls, name), name), "__func__"), "fget")
    return machine.call(machine.outside.realize(wrapped.fget, place), [given])


def instance_dictionary_source(source: Source, name: str) -> Source:
    return DictionaryAttributeSource(source, name)


class Plain:
    """Its objects are a dictionary and nothing else."""


def is_like_plain(cls: type) -> bool:
    """Whether objects of the class lie in memory as those of `Plain` do."""
    return cls.__basicsize__ == Plain.__basicsize__ and not any("__slots__" in base.__dict__ for base in cls.__mro__)
