"""`x.name`: the descriptor protocol over values. `attribute_changes` has `x.name = v` and `del x.name`.

    get(machine, value, "name")   the attribute, or the frame that computes it (a property, `__getattr__`)

Kinds of value that keep their attributes in a way of their own have a row in `READERS`; all others go through `generic`,
which is Python's `object.__getattribute__`.
"""

from __future__ import annotations

import enum
import threading
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._config_module import ConfigModule

from dynascope.capture.distributed_values import DistributedValue
from dynascope.capture.frames import Frame
from dynascope.capture.nested_values import NestedValue
from dynascope.capture.places import STABLE_TYPES, is_constant, is_library, is_library_name, module_name
from dynascope.capture.protocols import overriding
from dynascope.capture.protocols.classes import (
    METHOD_DESCRIPTOR,
    MISSING,
    NATIVE,
    OWN_CLASS,
    acts_as,
    class_source,
    counted_in_class,
    descriptor_source,
    has_own_method,
    has_python_method,
    is_data_descriptor,
    is_made,
    lookup,
    made_entry,
    member,
    member_source,
    of_class_method,
    refuse_own_comparisons,
)
from dynascope.capture.protocols.contents import contents_of, with_attributes
from dynascope.capture.protocols.overriding import check_elements
from dynascope.capture.protocols.presence import (
    MODULE_TABLES,
    found_at,
    has_keys_guarded,
    is_absent,
    missing,
    not_in_class,
    not_in_tables,
)
from dynascope.capture.protocols.slots import dictionary_given, slot
from dynascope.capture.protocols.thread_local import dictionary_of, is_thread_local
from dynascope.capture.protocols.weak_proxies import PROXIES, behind, is_proxy
from dynascope.capture.reasons import ProgramRaises, UnsupportedAttribute
from dynascope.capture.signals import Break, Raised
from dynascope.capture.values import (
    DELETED,
    NONE,
    ArrayValue,
    ConstantValue,
    DescriptorValue,
    DictValue,
    EitherValue,
    FunctionValue,
    InstanceDictionaryValue,
    InstanceValue,
    MethodValue,
    PartialValue,
    SliceValue,
    SuperValue,
    SymbolicNumber,
    TensorValue,
    TextValue,
    TracebackValue,
    TupleValue,
    Value,
    hides_its_dictionary,
    own_dictionary,
)
from dynascope.capture.world import note, note_type
from dynascope.guards.guard import Equals, HasNoKey
from dynascope.guards.source import AttributeSource, ConstantSource, DictionaryAttributeSource, ModuleMemberSource
from dynascope.guards.state_calls import CallReturns, Setting
from dynascope.guards.world import ABSENT, look_up

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine

PARTS_OF_PROPERTY = ("fget", "fset", "fdel", "__doc__")
C_METHODS = (types.MethodDescriptorType, types.WrapperDescriptorType)
METHODS = (types.MethodDescriptorType, types.FunctionType)
PYBIND_METHOD = type(torch._C._InferenceMode.__dict__["__enter__"])
"""What binds a method of a class that was made by pybind11."""
TUPLE_GETTER = type(__import__("collections").namedtuple("_T", "a").a)


def get(machine: Machine, value: Value, name: str) -> Any:
    """The attribute or the frame that computes it. Raises the program's AttributeError."""
    if isinstance(value, TextValue) and type(entry := lookup(str, name)) is types.MethodDescriptorType:
        return MethodValue(ConstantValue(entry), value)  # which may give a text again, whatever this one says
    if isinstance(value, EitherValue) and value.python_type is torch.Tensor and type(entry := lookup(torch.Tensor, name)) in METHODS:
        return MethodValue(ConstantValue(entry), value)  # which may do the same with either
    value = machine.realize(value)
    reader = READERS.get(type(value), generic)
    return reader(machine, value, name)


def get_now(machine: Machine, value: Value, name: str) -> Value:
    return machine.finish(get(machine, value, name))


def find(machine: Machine, value: Value, name: str) -> Value | None:
    """The attribute, None where the program has an AttributeError."""
    with machine.catching(absence=True):
        try:
            return get_now(machine, value, name)
        except Raised as raised:
            if not issubclass(raised.value.python_type, AttributeError):
                raise
    return None


# Reading


def generic(machine: Machine, value: Value, name: str) -> Any:
    """`__getattribute__`, then `__getattr__` where that has an AttributeError."""
    check_elements(machine, value)
    cls = value.python_type
    if is_proxy(value):
        return get(machine, behind(machine, value), name)
    if is_opaque(value):
        raise Break(UnsupportedAttribute(cls.__name__, name))
    if is_thread_local(value) and name != "__class__":
        held = dictionary_of(machine, value)
        if name == "__dict__":
            return held
        if name in held.items:
            return held.items[name][1]
    if has_python_method(cls, "__getattribute__"):
        found = machine.call(special(machine, value, "__getattribute__"), [ConstantValue(name)])
    else:
        try:
            found = own_attribute(machine, value, name)
        except Raised as raised:
            if lookup(cls, "__getattr__") is MISSING or not issubclass(raised.value.python_type, AttributeError):
                raise
            found = None
        if found is None:
            return fallback(machine, value, name)
    if found.__class__ is not Frame or lookup(cls, "__getattr__") is MISSING:
        return found
    return found_or_fallback(machine, value, name, found)


OF_OTHERS = (super, types.GenericAlias, types.UnionType)
"""Objects from outside that have, in C, attributes of other objects."""


def is_opaque(value: Value) -> bool:
    """Whether C says what its attributes are, or only Python finds what it holds."""
    cls = value.python_type
    if cls in (*PROXIES, *OF_OTHERS) or (issubclass(cls, threading.local) and not is_thread_local(value)):
        return True
    return isinstance(value, InstanceValue) and value.object is not None and hides_its_dictionary(cls)


def found_or_fallback(machine: Machine, value: Value, name: str, frame: Frame) -> Any:
    """What the user's `__getattribute__`, property or descriptor gives; `__getattr__` answers its AttributeError."""
    with machine.catching(absence=True):
        try:
            return machine.finish(frame)
        except Raised as raised:
            if not issubclass(raised.value.python_type, AttributeError):
                raise
    return fallback(machine, value, name)


def plain(machine: Machine, value: Value, name: str) -> Any:
    """`object.__getattribute__`."""
    found = own_attribute(machine, value, name)
    if found is None:
        is_absent(machine, value, name)
        raise missing(machine, value, name)
    return found


def own_attribute(machine: Machine, value: Value, name: str) -> Any:
    """What the object's dictionary and its class have; None where they have nothing."""
    cls = value.python_type
    holder = with_attributes(machine, value) if may_have(value, name) else value
    entry = lookup(cls, name)
    if entry is OWN_CLASS:
        return machine.outside.fixed(cls, cls.__name__) if value.source is None else class_value(machine, value)
    if entry is not MISSING and is_data_descriptor(entry) and hasattr(type(entry), "__get__"):
        return bind(machine, with_attributes(machine, value) if name == "__dict__" else value, name, entry)
    own = instance_attribute(machine, holder, name) if isinstance(holder, InstanceValue) else attribute_outside(machine, value, name)
    if own is not None:
        if entry is not MISSING and not is_made(cls):
            note_type(cls, name, entry)  # a property in its place would come before what the instance holds
        return own
    if (written := written_in_class(machine, cls, name)) is not None:
        guard_not_shadowed(machine, value, name)
        return written
    if entry is not MISSING:
        guard_not_shadowed(machine, value, name)
        return bind(machine, value, name, entry)
    return None


def may_have(value: Value, name: str) -> bool:
    """Whether a container has attributes, of which one has the name."""
    held = isinstance(value, DictValue) and (value.instance is not None or name in getattr(value.object, "__dict__", ()))
    return held and not isinstance(value, InstanceDictionaryValue)


def written_in_class(machine: Machine, cls: type, name: str) -> Value | None:
    """What the program has put into a class, where the class has the name from there."""
    if not machine.global_writes:
        return None
    for base in cls.__mro__:
        written = machine.global_writes.get((id(base), name))
        if written is not None:
            return written[1]
        if name in base.__dict__:
            return None
    return None


def class_value(machine: Machine, value: Value) -> Value:
    from dynascope.capture.protocols.classes import class_source

    cls = value.python_type
    return machine.outside.realize(cls, class_source(machine, cls, value))


def instance_attribute(machine: Machine, value: InstanceValue, name: str) -> Value | None:
    """The entry of the instance's own dictionary. One that is the object itself is read by the name alone, until it is looked into."""
    is_looked_into = value.object is None or value.contents is not None or "__dict__" in value.attributes
    if is_looked_into and (given := dictionary_given(machine, value, name)) is not None:
        return given.items[name][1] if name in given.items else None
    written = value.attributes.get(name)
    if written is DELETED:
        return None
    if written is not None:
        return written
    dictionary = own_dictionary(value)
    if dictionary is not None and name in dictionary:
        return found_at(machine, dictionary[name], DictionaryAttributeSource(value.source, name))
    return None


def attribute_outside(machine: Machine, value: Value, name: str) -> Value | None:
    """The entry of the dictionary beside a container from outside, as an OrderedDict has one. Setting one is a break."""
    whole = getattr(value, "object", None)
    if whole is None or value.source is None or type(whole).__dictoffset__ == 0:
        return None
    dictionary = object.__getattribute__(whole, "__dict__")
    machine.outside.check_unwritten(dictionary, f"{value.source.expression()}.{name}")
    if name not in dictionary:
        return None
    return found_at(machine, dictionary[name], DictionaryAttributeSource(value.source, name))


def guard_not_shadowed(machine: Machine, value: Value, name: str) -> None:
    """What was found in the class was not hidden by the instance. All such names of an object are one row of the check."""
    if isinstance(value, InstanceValue) and value.source is not None and own_dictionary(value) is not None and not has_keys_guarded(value):
        machine.guards.add(AttributeSource(value.source, "__dict__"), HasNoKey(name))


def bind(machine: Machine, value: Value, name: str, entry: Any) -> Any:
    """A class's entry, asked for through an instance: what its `__get__` gives."""
    cls = value.python_type
    kind = type(entry)
    if kind is types.FunctionType:
        return MethodValue(member(machine, cls, name, value), value)
    if kind in C_METHODS or kind is PYBIND_METHOD:
        return MethodValue(ConstantValue(entry), value)
    if kind.__flags__ & METHOD_DESCRIPTOR:  # a cached function, what Cython made, the call of a compiled module
        return MethodValue(machine.outside.realize(entry, member_source(machine, cls, name, value)), value)
    if acts_as(entry, property):
        return machine.call(property_part(machine, value, name, "fget"), [value])
    if acts_as(entry, staticmethod):
        return member(machine, cls, name, value)
    if acts_as(entry, classmethod):
        return of_class_method(machine, cls, name, entry, class_value(machine, value))
    if kind is types.ClassMethodDescriptorType or kind is types.BuiltinFunctionType:
        return ConstantValue(getattr(cls, name))
    if kind is TUPLE_GETTER and isinstance(held := contents_of(machine, value) or value, TupleValue):
        return field_of_tuple(machine, held, entry.__reduce__()[1][0])
    if kind in (types.MemberDescriptorType, types.GetSetDescriptorType):
        return slot(machine, value, name)
    if isinstance(getattr(kind, "__get__", None), types.FunctionType) and made_entry(machine, cls, name) is None:
        return by_descriptor(machine, cls, name, entry, [value, class_value(machine, value)])
    if hasattr(kind, "__get__"):
        raise Break(UnsupportedAttribute(cls.__name__, name))
    if (made := made_entry(machine, cls, name)) is not None:
        return made
    return machine.outside.lazy(entry, member_source(machine, cls, name, value))


def field_of_tuple(machine: Machine, value: TupleValue, at: int) -> Value:
    """A named tuple's field: its item, whatever the class makes of `t[at]`. `__new__` of a subclass may have left some out."""
    if at < len(value.items):
        return value.items[at]
    raise machine.throw(IndexError, "tuple index out of range")


def special(machine: Machine, value: Value, name: str) -> Value:
    """The method that Python's own syntax asks for: its class's, bound as any entry is, whatever the object holds under the name."""
    entry = lookup(value.python_type, name)
    if entry is None:  # how a class says that it has none
        raise Break(ProgramRaises("TypeError", machine.expression()))
    return machine.finish(bind(machine, value, name, entry))


def by_descriptor(machine: Machine, cls: type, name: str, entry: Any, asked: list[Value]) -> Any:
    """What the `__get__` of the program's own descriptor gives, asked for an object (None for the class itself) and its class."""
    descriptor = machine.outside.realize(entry, descriptor_source(machine, cls, name, None))
    return machine.call(special(machine, descriptor, "__get__"), asked)


def property_part(machine: Machine, value: Value, name: str, part: str) -> Value:
    """The function behind a property, which the property itself (found in the class) leads to."""
    made = made_entry(machine, value.python_type, name)
    if isinstance(made, DescriptorValue) and made.parts[PARTS_OF_PROPERTY.index(part)] is not NONE:
        return made.parts[PARTS_OF_PROPERTY.index(part)]
    if made is not None:
        raise Break(UnsupportedAttribute(value.python_type.__name__, name))
    source = member_source(machine, value.python_type, name, value)
    accessor = getattr(lookup(value.python_type, name), part)
    if accessor is None:
        lacks = {"fget": "getter", "fset": "setter", "fdel": "deleter"}[part]
        kind = value.python_type.__qualname__
        raise machine.throw(AttributeError, f"property {name!r} of {kind!r} object has no {lacks}")
    return machine.outside.realize(accessor, AttributeSource(source, part))


def fallback(machine: Machine, value: Value, name: str) -> Any:
    """`__getattr__`, where the class has one."""
    cls = value.python_type
    entry = lookup(cls, "__getattr__")
    is_absent(machine, value, name)
    if entry is torch.nn.Module.__getattr__ and isinstance(value, InstanceValue):
        return module_member(machine, value, name)
    if has_python_method(cls, "__getattr__") or type(entry) in C_METHODS:  # `__getattr__ = dict.__getitem__`
        return machine.call(special(machine, value, "__getattr__"), [ConstantValue(name)])
    if entry is not MISSING:
        raise Break(UnsupportedAttribute(cls.__name__, name))
    raise missing(machine, value, name)


def module_member(machine: Machine, module: InstanceValue, name: str) -> Value:
    """A parameter, buffer or submodule, read from its table without asking the table's other keys."""
    for table in MODULE_TABLES:
        items = module_table(machine, module, table)
        if isinstance(items, DictValue):
            if name in items.items:
                return items.items[name][1]
        elif items is not None and name in items:
            return found_at(machine, items[name], ModuleMemberSource(module.source, table, name))
    not_in_tables(machine, module, name)
    raise missing(machine, module, name)


def module_table(machine: Machine, module: InstanceValue, table: str) -> DictValue | dict | None:
    """The table as a value if the program may have changed it, else the real one."""
    written = module.attributes.get(table)
    if written is not None:
        return machine.realize(written)
    if module.object is None:
        return None
    real = own_dictionary(module).get(table)
    known = machine.outside.by_identity.get(id(real))
    return known if isinstance(known, DictValue) else real


def of_constant(machine: Machine, value: ConstantValue, name: str) -> Any:
    """Attributes of modules, classes, and known objects."""
    thing = value.value
    if isinstance(thing, types.ModuleType):
        return of_module(machine, value, name)
    if isinstance(thing, type):
        return of_class(machine, value, name)
    entry = lookup(type(thing), name)
    own = getattr(thing, "__dict__", {})
    if entry is not MISSING and name not in own:
        if isinstance(entry, types.FunctionType):
            return MethodValue(member(machine, type(thing), name, value), value)
        if acts_as(entry, property) and not isinstance(entry.fget, types.BuiltinFunctionType):
            return machine.call(property_part(machine, value, name, "fget"), [value])
    if entry is MISSING and name not in own and lookup(type(thing), "__getattr__") is MISSING and type(thing) not in OF_OTHERS:
        raise missing(machine, value, name)
    if entry is MISSING and name not in own and has_own_method(value, "__getattr__"):
        return machine.call(special(machine, value, "__getattr__"), [ConstantValue(name)])
    try:
        found = getattr(thing, name)
    except AttributeError as error:
        raise machine.throw(AttributeError, *error.args) from None
    if isinstance(thing, enum.Enum) and name in own and not name.startswith("_"):
        # What the program gave the member besides; a call may find another.
        source = AttributeSource(value.source or ConstantSource(f"{thing}@{id(thing)}", thing), name)
        return found_at(machine, found, source)
    return attribute_of_fixed(machine, value, name, found)


def attribute_of_fixed(machine: Machine, value: ConstantValue, name: str, found: Any) -> Value:
    from dynascope.capture.outside import LITERAL_TYPES

    is_python = isinstance(found, types.FunctionType) and not is_library_name(found.__module__)
    if type(found) in LITERAL_TYPES or isinstance(found, STABLE_TYPES) and not is_python:
        return ConstantValue(found)
    if value.source is not None:
        return machine.outside.lazy(found, AttributeSource(value.source, name))
    return machine.outside.fixed(found, name)


def of_module(machine: Machine, value: ConstantValue, name: str) -> Value:
    module = value.value
    written = machine.global_writes.get((id(vars(module)), name))
    if written is not None:
        return written[1]
    machine.outside.check_unwritten(vars(module), f"{module.__name__}.{name}")
    kind, entry = type(module), lookup(type(module), name)
    if kind is not types.ModuleType and entry is not MISSING and is_data_descriptor(entry):
        return bind(machine, value, name, entry)
    try:
        found = getattr(module, name)
    except AttributeError as error:
        note(vars(module), name, ABSENT)
        raise machine.throw(AttributeError, *error.args) from None
    if name not in vars(module):
        return computed_by_module(machine, value, name, found)
    if is_library(vars(module)) and is_constant(found):
        note(vars(module), name, found)
        return machine.outside.fixed(found, name)
    source = AttributeSource(value.source or ConstantSource(f"{module.__name__}@{id(module)}", module), name)
    return found_at(machine, found, source)


def computed_by_module(machine: Machine, value: ConstantValue, name: str, found: Any) -> Any:
    """What the module's class, or a `__getattr__`, answers: the class's own is read, a module's is taken to answer alike."""
    kind, names = type(value.value), vars(value.value)
    note(names, name, ABSENT)
    note(names, "__getattr__", names.get("__getattr__", ABSENT))
    entry = lookup(kind, name)
    if kind is not types.ModuleType and entry is not MISSING:
        return bind(machine, value, name, entry)
    if issubclass(kind, ConfigModule) and type(found) in (bool, int, float, str, type(None)):
        machine.guards.add_state(CallReturns(Setting(value.value, name), found))
        return ConstantValue(found)
    getter = lookup(kind, "__getattr__")
    if isinstance(getter, types.FunctionType):
        return machine.call(member(machine, kind, "__getattr__", value), [value, ConstantValue(name)])
    if is_constant(found) or value.source is None:
        return machine.outside.fixed(found, name)
    return machine.outside.lazy(found, AttributeSource(value.source, name))


NAMES_OF_CLASSES = ("__name__", "__qualname__", "__doc__")
"""What a class says of itself and may be given anew."""


def of_class(machine: Machine, value: ConstantValue, name: str) -> Any:
    """`cls.name`: the class's own entries, then its metaclass's."""
    cls = value.value
    refuse_own_comparisons(machine, cls)
    if (written := written_in_class(machine, cls, name)) is not None:
        return written
    if (source := counted_in_class(machine, cls, name)) is not None:
        return found_at(machine, vars(cls)[name], source)
    entry = lookup(cls, name)
    if not is_library_name(type(cls).__module__) and (found := by_metaclass(machine, value, name, entry)) is not None:
        return found
    if name in ("__annotations__", "__annotate__") and name not in cls.__dict__:
        entry = MISSING  # those of a base are not its own
    if is_made(cls) and name in ("__dict__", "__annotations__", "__annotate__") and (entry is MISSING or name == "__dict__"):
        raise Break(UnsupportedAttribute(cls.__name__, name))
    if entry is MISSING or name in ("__dict__", "__class__", "__name__", "__qualname__", "__doc__", "__mro__"):
        try:
            found = getattr(cls, name)
        except AttributeError as error:
            not_in_class(machine, cls, name)
            raise machine.throw(AttributeError, *error.args) from None
        if isinstance(found, types.MethodType):
            return MethodValue(machine.outside.fixed(found.__func__, name), value)
        if name in NAMES_OF_CLASSES and type(found) in (str, type(None)) and not (is_made(cls) or is_library_name(cls.__module__)):
            machine.guards.add(AttributeSource(class_source(machine, cls), name), Equals(found))
        return machine.outside.fixed(found, f"{cls.__name__}.{name}")
    if acts_as(entry, classmethod):
        return of_class_method(machine, cls, name, entry, value)
    if isinstance(entry, types.ClassMethodDescriptorType):
        return ConstantValue(getattr(cls, name))
    if isinstance(entry, types.FunctionType) or acts_as(entry, staticmethod):
        return member(machine, cls, name)
    if (made := made_entry(machine, cls, name)) is not None:
        return made
    kind = type(entry)
    if isinstance(getattr(kind, "__get__", None), types.FunctionType) and not is_library_name(kind.__module__):
        return by_descriptor(machine, cls, name, entry, [NONE, value])
    found = getattr(cls, name)
    if module_name(type(found)) == "enum" or is_library_name(cls.__module__):
        return machine.outside.fixed(found, f"{cls.__name__}.{name}")
    source = member_source(machine, cls, name, None)
    return found_at(machine, found, source)


def by_metaclass(machine: Machine, value: ConstantValue, name: str, entry: Any) -> Any:
    """What the program's own class of the class says: its descriptors before the class's `entry`, the rest where there is none."""
    cls = value.value
    if has_python_method(type(cls), "__getattribute__"):
        return machine.call(special(machine, value, "__getattribute__"), [ConstantValue(name)])
    own = lookup(type(cls), name)
    if own is not MISSING and not isinstance(own, NATIVE) and (entry is MISSING or is_data_descriptor(own)):
        return bind(machine, value, name, own)
    if entry is MISSING and own is MISSING and has_python_method(type(cls), "__getattr__"):
        return machine.call(special(machine, value, "__getattr__"), [ConstantValue(name)])
    return None


def of_function(machine: Machine, value: FunctionValue, name: str) -> Value:
    if name in value.attributes:
        return value.attributes[name]
    entry = lookup(types.FunctionType, name)
    if isinstance(entry, types.WrapperDescriptorType) and (value.object is None or name not in vars(value.object)):
        return MethodValue(ConstantValue(entry), value)
    if value.object is not None:
        machine.outside.check_unwritten(vars(value.object), f"{value.name}.{name}")
        if not hasattr(value.object, name):
            is_absent(machine, value, name)
            raise missing(machine, value, name)
        place = AttributeSource(value.source, name)
        held = getattr(value.object, name)
        return found_at(machine, held, place) if entry is MISSING else machine.outside.lazy(held, place)
    known = {
        "__name__": lambda: ConstantValue(value.code.co_name),
        "__qualname__": lambda: ConstantValue(value.name),
        "__module__": lambda: ConstantValue(value.globals.get("__name__")),
        "__doc__": lambda: ConstantValue(documentation(value.code)),
        "__code__": lambda: ConstantValue(value.code),
        "__defaults__": lambda: TupleValue(value.defaults) if value.defaults else NONE,
        "__dict__": lambda: InstanceDictionaryValue(value, None),
        "__type_params__": lambda: TupleValue(()),  # what has some is made by an instruction that is left to Python
    }
    if name in known and entry is not MISSING:
        return known[name]()
    if name == "__annotations__":
        made = annotations(machine, value)
        machine.journal.set_item(value.attributes, name, made)
        return made
    if hasattr(types.FunctionType, name):
        raise Break(UnsupportedAttribute("function", name))
    raise missing(machine, value, name)


def annotations(machine: Machine, value: FunctionValue) -> Value:
    """From 3.14 on they are evaluated when first asked for, by a function of their own."""
    evaluate = value.attributes.get("__annotate__")
    return DictValue({}) if evaluate is None else machine.call_now(evaluate, [ConstantValue(ANNOTATION_VALUES)])


ANNOTATION_VALUES = 1  # annotationlib.Format.VALUE


def documentation(code: types.CodeType) -> str | None:
    """Where a code object keeps it depends on the version: a function made of it knows."""
    closure = tuple(types.CellType() for _ in code.co_freevars)
    return types.FunctionType(code, {}, None, None, closure).__doc__


def of_method(machine: Machine, value: MethodValue, name: str) -> Any:
    kind = value.python_type
    if kind is not types.MethodType and lookup(kind, name) is MISSING:
        raise missing(machine, value, name)
    own = {"__self__": value.instance, "__func__": value.function}
    return own[name] if name in own else get(machine, value.function, name)


def of_partial(machine: Machine, value: PartialValue, name: str) -> Any:
    if name == "func":
        return value.function
    if name == "args":
        return value.given
    if name == "keywords":
        return value.dictionary
    return generic(machine, value, name)


def of_super(machine: Machine, value: SuperValue, name: str) -> Any:
    """The next class's entry, bound to the instance."""
    instance = value.instance
    is_class = isinstance(instance, ConstantValue) and isinstance(instance.value, type)
    is_class = is_class and issubclass(instance.value, value.cls)  # else it is an instance of a metaclass
    order = (instance.value if is_class else instance.python_type).__mro__
    for base in order[order.index(value.cls) + 1 :]:
        if not is_made(base):
            note(base, name, look_up(base, name))
        if (written := machine.global_writes.get((id(base), name))) is not None:
            return written[1]
        if name in base.__dict__:
            entry = base.__dict__[name]
            if acts_as(entry, classmethod):
                return of_class_method(machine, base, name, entry, instance if is_class else class_value(machine, instance))
            found = member(machine, base, name)
            if acts_as(entry, staticmethod) or name == "__new__" or (acts_as(entry, property) and is_class):
                return found  # `super(Child, type(self)).size` is the property itself, as `Base.size` is
            if acts_as(entry, property) and not is_class and is_made(base):
                return machine.call(found, [instance])
            if acts_as(entry, property) and not is_class:
                place = AttributeSource(member_source(machine, base, name, None), "fget")
                return machine.call(machine.outside.realize(entry.fget, place), [instance])
            if isinstance(entry, types.ClassMethodDescriptorType):
                return ConstantValue(entry.__get__(None, instance.value if is_class else instance.python_type))
            if isinstance(entry, (types.FunctionType, *C_METHODS)):
                return found if is_class else MethodValue(found, instance)
            if hasattr(type(entry), "__get__"):
                raise Break(UnsupportedAttribute(f"super() of {value.python_type.__name__}", name))
            return found
    if name == "__getattr__" or is_class:
        raise missing(machine, value, name)
    raise missing(machine, value, name)


def of_slice(machine: Machine, value: SliceValue, name: str) -> Any:
    names = ("start", "stop", "step")
    return value.parts[names.index(name)] if name in names else generic(machine, value, name)


def of_traceback(machine: Machine, value: TracebackValue, name: str) -> Any:
    raise Break(UnsupportedAttribute("traceback", name))


def of_number(machine: Machine, value: SymbolicNumber, name: str) -> Any:
    entry = lookup(value.python_type, name)
    if type(entry) is types.MethodDescriptorType and value.__class__ is SymbolicNumber:
        return MethodValue(ConstantValue(entry), value)
    return of_constant(machine, machine.known(value), name)


def of_tensor(machine: Machine, value: TensorValue, name: str) -> Any:
    from dynascope.capture.calls.tensor_attributes import attribute

    if machine.overriding.asks_modes and isinstance(lookup(torch.Tensor, name), types.GetSetDescriptorType):
        return overriding.attribute(machine, value, name)
    return attribute(machine, value, name)


def of_distributed(machine: Machine, value: DistributedValue, name: str) -> Any:
    from dynascope.capture.calls import distributed_tensors

    return distributed_tensors.attribute(machine, value, name)


def of_rows(machine: Machine, value: NestedValue, name: str) -> Any:
    from dynascope.capture.calls import nested_masks

    return nested_masks.attribute(machine, value, name)


def of_array(machine: Machine, value: ArrayValue, name: str) -> Any:
    from dynascope.capture.calls import numpy_arrays

    found = numpy_arrays.attribute(machine, value, name)
    return generic(machine, value, name) if found is None else found


READERS: dict[type, Callable[[Any, Any, str], Any]] = {
    ConstantValue: of_constant,
    FunctionValue: of_function,
    MethodValue: of_method,
    PartialValue: of_partial,
    SuperValue: of_super,
    SliceValue: of_slice,
    TracebackValue: of_traceback,
    SymbolicNumber: of_number,
    TensorValue: of_tensor,
    DistributedValue: of_distributed,
    NestedValue: of_rows,
    ArrayValue: of_array,
}
