"""`x.name = v` and `del x.name`: the descriptor protocol over values. Changes go through the journal.

set(machine, value, "name", item)     None, or the frame of a setter whose result is dropped
"""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

import torch

from dynascope.capture.places import is_library, is_library_name
from dynascope.capture.protocols import (
    attributes_of_tensors,
    gradient_requirements,
    gradients,
    made_classes,
    tensor_data,
    tensor_flags,
    thread_local,
)
from dynascope.capture.protocols.attributes import (
    get,
    instance_attribute,
    is_opaque,
    module_table,
    own_dictionary,
    property_part,
    special,
)
from dynascope.capture.protocols.classes import (
    MISSING,
    acts_as,
    counted_in_class,
    descriptor_source,
    has_python_method,
    is_data_descriptor,
    is_made,
    lookup,
)
from dynascope.capture.protocols.contents import with_attributes
from dynascope.capture.protocols.presence import MODULE_TABLES, missing
from dynascope.capture.protocols.slots import dictionary_given, is_set, slot
from dynascope.capture.protocols.weak_proxies import behind, is_proxy
from dynascope.capture.reasons import ModuleSetting, ProgramRaises, UnsupportedAttribute
from dynascope.capture.signals import Break, Raised
from dynascope.capture.values import (
    DELETED,
    HEAP_TYPE,
    ConstantValue,
    DictValue,
    EitherValue,
    FunctionValue,
    InstanceDictionaryValue,
    InstanceValue,
    TensorValue,
    Value,
    constant_of,
)
from dynascope.guards.source import DictionaryAttributeSource, mapping_behind

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine


def set(machine: Machine, value: Value, name: str, item: Value) -> Any:
    """`value.name = item`: None, or the frame of a setter whose result is dropped."""
    value = with_attributes(machine, machine.realize(value))
    if is_proxy(value):
        return set(machine, behind(machine, value), name, item)
    if is_opaque(value):
        raise Break(UnsupportedAttribute(value.python_type.__name__, name))
    if thread_local.is_thread_local(value) and name != "__dict__":
        thread_local.put(machine, value, name, item)
        return None
    if isinstance(value, FunctionValue) and value.object is None:
        set_in_function(machine, value, name, item)
        return None
    if isinstance(value, TensorValue) and name == "grad":
        gradients.write(machine, value, item)
        return None
    if isinstance(value, TensorValue) and name == "data":
        tensor_data.write(machine, value, item)
        return None
    if isinstance(value, TensorValue) and name == gradient_requirements.NAME:
        gradient_requirements.assign(machine, value, item)
        return None
    if isinstance(value, TensorValue) and name in ("real", "imag") and isinstance(machine.realize(item), TensorValue):
        machine.call_now(get(machine, machine.finish(get(machine, value, name)), "copy_"), [item], {})
        return None
    if isinstance(value, TensorValue):
        attributes_of_tensors.put(machine, value, name, item)
        return None
    if isinstance(value, ConstantValue) and is_made(value.value):
        made_classes.put(machine, value.value, name, item)
        return None
    if isinstance(value, ConstantValue) and is_class_with_values(value.value):
        set_in_class(machine, value, name, item)
        return None
    if isinstance(value, ConstantValue) and isinstance(value.value, types.ModuleType):
        if isinstance(setter_of(type(value.value), name), types.FunctionType):  # a switch, as those of `torch.backends` are
            return set_by_descriptor(machine, value, name, item)
        set_in_module(machine, value.value, name, item)
        return None
    if not isinstance(value, InstanceValue):
        raise Break(UnsupportedAttribute(value.python_type.__name__, name))
    entry = lookup(value.cls, "__setattr__")
    if entry is torch.nn.Module.__setattr__ and sets_plainly(machine, value, name, item):
        return None
    if has_python_method(value.cls, "__setattr__"):
        return machine.call(special(machine, value, "__setattr__"), [ConstantValue(name), item])
    if entry.__name__ != "__setattr__":  # `__setattr__ = dict.__setitem__`
        machine.call_now(special(machine, value, "__setattr__"), [ConstantValue(name), item])
        return None
    return set_plain(machine, value, name, item)


KINDS_IN_FUNCTIONS = {"__name__": str, "__qualname__": str, "__annotations__": dict, "__defaults__": tuple, "__type_params__": tuple}


def set_in_function(machine: Machine, function: FunctionValue, name: str, item: Value) -> None:
    """Of what makes a function what it is only defaults are set here; the rest, and what has the wrong type, is Python's."""
    item = machine.realize(item)
    entry = lookup(types.FunctionType, name)
    if name in ("__doc__", "__module__") or entry is MISSING or not is_data_descriptor(entry):
        machine.journal.set_item(function.attributes, name, item)
    elif item.python_type is not KINDS_IN_FUNCTIONS.get(name):
        raise Break(UnsupportedAttribute("function", name))
    elif name == "__defaults__":
        machine.journal.set(function, "defaults", item.items)
    else:
        machine.journal.set_item(function.attributes, name, item)


def is_class_with_values(cls: Any) -> bool:
    """A class whose attributes are set as those of any class."""
    return (
        isinstance(cls, type)
        and bool(cls.__flags__ & HEAP_TYPE)
        and lookup(type(cls), "__setattr__") is type.__setattr__
    )


PLAIN = (int, float, str, bytes, type(None))


def set_in_class(machine: Machine, value: ConstantValue, name: str, item: Value) -> None:
    """`Counter.calls = 3`. What a class does is not changed: neither methods nor descriptors, nor what Python asks a class for."""
    item = machine.realize(item)
    is_counted = counted_in_class(machine, value.value, name) is not None
    before = vars(value.value)[name] if is_counted else lookup(value.value, name)
    is_plain = not hasattr(type(before), "__get__") and not hasattr(item.python_type, "__get__")
    if is_library_name(value.value.__module__) and not isinstance(before, PLAIN):  # what its code does is taken never to change
        raise Break(UnsupportedAttribute(value.value.__name__, name))
    if name.startswith("__") or not is_plain or isinstance(item, ConstantValue) and isinstance(item.value, type):
        raise Break(UnsupportedAttribute(value.value.__name__, name))
    if id(mapping_behind(vars(value.value))) in machine.outside.by_identity:  # `cls.__dict__`, which the program has looked into
        raise Break(UnsupportedAttribute(value.value.__name__, name))
    machine.journal.set_item(machine.global_writes, (id(value.value), name), (value.value, item))


def set_in_module(machine: Machine, module: types.ModuleType, name: str, item: Value) -> None:
    """`settings.step = 3` is a global of that module from then on."""
    if is_library(vars(module)):
        raise Break(ModuleSetting(f"{module.__name__}.{name}"))
    if type(module) is not types.ModuleType or name.startswith("__"):
        raise Break(UnsupportedAttribute(type(module).__name__, name))
    machine.journal.set_item(machine.global_writes, (id(vars(module)), name), (vars(module), item))


def set_plain(machine: Machine, value: Value, name: str, item: Value) -> Any:
    """`object.__setattr__`."""
    entry = lookup(value.python_type, name)
    if acts_as(entry, property, "__set__"):
        return machine.call(property_part(machine, value, name, "fset"), [value, item])
    if name == "__dict__" and takes_dictionary(value, item := machine.realize(item)):
        machine.journal.set_item(value.attributes, name, item)
        return None
    if entry is not MISSING and is_data_descriptor(entry):
        if isinstance(setter_of(value.cls, name), types.FunctionType):
            return set_by_descriptor(machine, value, name, item)
        if not is_slot(entry) and not is_taken_by_exceptions(value.cls, name, item):
            raise Break(UnsupportedAttribute(value.cls.__name__, name))
    elif not value.python_type.__dictoffset__:
        raise Break(ProgramRaises("AttributeError", machine.expression()))
    put(machine, value, name, item)
    return None


def takes_dictionary(value: Value, item: Value) -> bool:
    """Whether `value.__dict__ = item` makes a dictionary that is no other object's the place of the attributes of an object that was made
    inside and has none yet (`self.__dict__ = self._shared`), or the object itself: it is then kept as the attribute `__dict__`."""
    if not isinstance(value, InstanceValue) or value.object is not None or value.tensor is not None or value.attributes:
        return False
    if item is value:
        return isinstance(value.contents, DictValue) and value.contents.cls is dict
    return (
        value.contents is None
        and isinstance(lookup(value.cls, "__dict__"), types.GetSetDescriptorType)
        and not issubclass(value.cls, (BaseException, torch.nn.Module))
        and type(item) in (DictValue, InstanceDictionaryValue)
        and item.cls is dict
    )


def setter_of(cls: type, name: str) -> Any:
    """What sets the attribute, where the class has a descriptor for it that does."""
    return getattr(type(lookup(cls, name)), "__set__", None)


def set_by_descriptor(machine: Machine, value: Value, name: str, item: Value) -> Any:
    cls = value.python_type
    descriptor = machine.outside.realize(lookup(cls, name), descriptor_source(machine, cls, name, value))
    return machine.call(special(machine, descriptor, "__set__"), [value, item])


def is_slot(entry: Any) -> bool:
    """A member that `__slots__` made, which takes any value. Of one that a class has in C only C knows what it takes."""
    return isinstance(entry, types.MemberDescriptorType) and "__slots__" in vars(entry.__objclass__)


KINDS_IN_EXCEPTIONS = {"__cause__": BaseException, "__context__": BaseException, "__traceback__": types.TracebackType}


def is_taken_by_exceptions(cls: type, name: str, item: Value) -> bool:
    """Whether it is an attribute that every exception has in C, which is given what it takes: None as well."""
    kind = KINDS_IN_EXCEPTIONS.get(name)
    given = item.python_type
    return issubclass(cls, BaseException) and kind is not None and (given is type(None) or issubclass(given, kind))


def put(machine: Machine, value: InstanceValue | FunctionValue, name: str, item: Value) -> None:
    """What was deleted and is set again comes last in the dictionary."""
    if value.attributes.get(name) is DELETED:
        if not isinstance(value, InstanceValue) or value.contents is not None or "__dict__" in value.attributes:
            raise Break(UnsupportedAttribute(value.python_type.__name__, name))
        machine.journal.set(value, "moved", value.moved | {name})
        machine.journal.pop_item(value.attributes, name)
    if (given := dictionary_given(machine, value, name)) is not None:
        if isinstance(given, InstanceDictionaryValue):
            put(machine, given.owner, attribute_name(given, ConstantValue(name)), item)
            return
        known = given.items.get(name)
        machine.journal.set_item(given.items, name, (known[0] if known else ConstantValue(name), item))
        machine.write(given)
        return
    machine.journal.set_item(value.attributes, name, item)
    machine.write(value)


def attribute_name(container: InstanceDictionaryValue, key: Value) -> str:
    """The key as the name of an attribute that the class has no say in."""
    name = key.value if isinstance(key, ConstantValue) else None
    cls = container.owner.python_type
    if type(name) is not str or ((entry := lookup(cls, name)) is not MISSING and is_data_descriptor(entry)):
        raise Break(UnsupportedAttribute(cls.__name__, "__dict__"))
    return name


def remove(machine: Machine, value: InstanceValue | FunctionValue, name: str) -> None:
    """The name goes: from the object outside where it has it, else only from what the program wrote."""
    own = own_dictionary(value) if isinstance(value, InstanceValue) else None
    take_away(machine, value, name, own is not None and name in own or own is None and value.object is not None)


def take_away(machine: Machine, value: InstanceValue | FunctionValue, name: str, is_outside: bool) -> None:
    if (given := dictionary_given(machine, value, name)) is not None:
        if isinstance(given, InstanceDictionaryValue):
            remove(machine, given.owner, attribute_name(given, ConstantValue(name)))
            return
        machine.journal.set(given, "items", {key: pair for key, pair in given.items.items() if key != name})
        machine.write(given)
        return
    if is_outside:
        machine.journal.set_item(value.attributes, name, DELETED)
    else:
        kept = {known: item for known, item in value.attributes.items() if known != name}
        machine.journal.set(value, "attributes", kept)
    machine.write(value)


def sets_plainly(machine: Machine, module: InstanceValue, name: str, item: Value) -> bool:
    """`nn.Module.__setattr__` of something that is no parameter or module: the instance's dictionary, or a buffer."""
    item = item if isinstance(item, EitherValue) else machine.realize(item)
    if module.object is None or not is_plain_item(machine, item):
        return False
    entry = lookup(module.cls, name)
    if entry is not MISSING and is_data_descriptor(entry):  # a property of the class, as parametrizations make them
        return False
    tables = [module_table(machine, module, table) for table in MODULE_TABLES]
    if any(items is None for items in tables):
        return False
    names = [items.items if isinstance(items, DictValue) else items for items in tables]
    if name in names[0] or name in names[2]:
        return False
    if name not in names[1]:
        put(machine, module, name, item)
        return True
    if not may_be_buffer(item):
        return False
    buffers = machine.realize(machine.outside.lazy(own_dictionary(module)["_buffers"], buffers_source(module)))
    machine.journal.set_item(buffers.items, name, (ConstantValue(name), item))
    machine.write(buffers)
    return True


def is_plain_item(machine: Machine, item: Value) -> bool:
    """Neither a parameter nor a module; of what may be either of two, neither of both."""
    if isinstance(item, EitherValue):
        return is_plain_item(machine, item.first) and is_plain_item(machine, item.second)
    item = machine.realize(item)
    if isinstance(item, TensorValue):
        return not any(tensor_flags.is_instance(machine, item, cls) for cls in tensor_flags.FLAGS)
    return not isinstance(item, InstanceValue)


def may_be_buffer(item: Value) -> bool:
    if isinstance(item, EitherValue):
        return may_be_buffer(item.first) and may_be_buffer(item.second)
    return isinstance(item, TensorValue) or constant_of(item) is None


def buffers_source(module: InstanceValue) -> DictionaryAttributeSource:
    return DictionaryAttributeSource(module.source, "_buffers")


def delete(machine: Machine, value: Value, name: str) -> Any:
    value = with_attributes(machine, machine.realize(value))
    if is_proxy(value):
        return delete(machine, behind(machine, value), name)
    if isinstance(value, TensorValue):
        get(machine, value, name)
        attributes_of_tensors.remove(machine, value, name)
        return None
    if not isinstance(value, InstanceValue) or is_opaque(value):
        raise Break(UnsupportedAttribute(value.python_type.__name__, name))
    if thread_local.is_thread_local(value):
        thread_local.delete(machine, value, name)
        return None
    entry = lookup(value.cls, "__delattr__")
    if has_python_method(value.cls, "__delattr__"):
        if entry is not torch.nn.Module.__delattr__:
            return machine.call(special(machine, value, "__delattr__"), [ConstantValue(name)])
        if instance_attribute(machine, value, name) is None:
            raise Break(UnsupportedAttribute(value.cls.__name__, name))
    elif entry.__name__ != "__delattr__":  # `__delattr__ = dict.__delitem__`
        machine.call_now(special(machine, value, "__delattr__"), [ConstantValue(name)])
        return None
    found = lookup(value.cls, name)
    if is_slot(found):
        try:
            slot(machine, value, name)
        except Raised:  # CPython's words for a member that holds nothing (`PyMember_SetOne`, Python/structmember.c)
            raise machine.throw(AttributeError, name) from None
        take_away(machine, value, name, is_set(value, name))
        return None
    if found is not MISSING and is_data_descriptor(found):
        return delete_by_descriptor(machine, value, name, found)
    if instance_attribute(machine, value, name) is None:
        raise missing(machine, value, name)
    remove(machine, value, name)
    return None


def delete_by_descriptor(machine: Machine, value: InstanceValue, name: str, entry: Any) -> Any:
    if acts_as(entry, property, "__delete__"):
        return machine.call(property_part(machine, value, name, "fdel"), [value])
    kind = type(entry)
    if not isinstance(getattr(kind, "__delete__", None), types.FunctionType):
        raise Break(UnsupportedAttribute(value.cls.__name__, name))
    descriptor = machine.outside.realize(entry, descriptor_source(machine, value.cls, name, value))
    return machine.call(special(machine, descriptor, "__delete__"), [value])
