"""Builtins that ask about objects or change them: their class, attributes, length, identity, and how they are made."""

from __future__ import annotations

import collections
import types
from typing import TYPE_CHECKING, Any

import torch

from dynascope.capture.calls.arguments import Arguments, Keywords
from dynascope.capture.calls.constructors import fill
from dynascope.capture.calls.pure import compute
from dynascope.capture.calls.registry import meaning
from dynascope.capture.protocols import attributes
from dynascope.capture.protocols.classes import MISSING, class_source, has_python_method, lookup, member
from dynascope.capture.protocols.iteration import elements
from dynascope.capture.reasons import ForeignCall, ForeignValue, PrintCall
from dynascope.capture.signals import Break
from dynascope.capture.values import (
    NONE,
    CellValue,
    ConstantValue,
    DictValue,
    DictViewValue,
    FunctionValue,
    InstanceValue,
    ListValue,
    MethodValue,
    NotConstant,
    PartialValue,
    SetValue,
    SuperValue,
    TensorValue,
    TupleValue,
    Value,
    boolean,
    constant_of,
)

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine

SIZED = (ListValue, TupleValue, DictValue, SetValue)


@meaning(len)
def length(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    value = machine.known(arguments[0])
    if isinstance(value, SIZED):
        return ConstantValue(len(value.items))
    if isinstance(value, DictViewValue):
        return ConstantValue(len(value.dictionary.items))
    if isinstance(value, TensorValue):
        if value.example.dim() == 0:
            raise machine.throw(TypeError, "len() of a 0-d tensor")
        return ConstantValue(value.example.shape[0])
    if isinstance(value, ConstantValue):
        return compute(machine, len, (value.value,))
    if lookup(value.python_type, "__len__") is MISSING:
        raise machine.throw(TypeError, f"object of type {value.python_type.__name__!r} has no len()")
    return machine.call(member(machine, value.python_type, "__len__", value), [value])


@meaning(type)
def type_of(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    if len(arguments) != 1:
        raise Break(ForeignCall("type", "it makes a class"))
    value = machine.realize(arguments[0])
    if value.source is None or isinstance(value, ConstantValue):
        return ConstantValue(value.python_type)
    return machine.outside.realize(value.python_type, class_source(machine, value.python_type, value))


@meaning(isinstance)
def isinstance_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    return boolean(is_instance(machine, machine.realize(arguments[0]), arguments[1]))


def is_instance(machine: Machine, value: Value, classes: Value) -> bool:
    if isinstance(value, ConstantValue):
        known = constant_of(classes)
        if type(known) is not NotConstant:
            return compute(machine, isinstance, (value.value, known)).value
    if isinstance(value, InstanceValue) and value.object is not None:
        known = constant_of(classes)
        if type(known) is not NotConstant:
            return compute(machine, isinstance, (value.object, known)).value
    cls = tensor_class(value) if isinstance(value, TensorValue) else value.python_type
    return is_subclass(machine, cls, classes, value)


def tensor_class(value: TensorValue) -> type:
    return value.python_type


def is_subclass(machine: Machine, cls: type, classes: Value, value: Value | None = None) -> bool:
    known = constant_of(classes)
    if type(known) is NotConstant:
        raise Break(ForeignValue(known.value.python_type.__name__, machine.expression()))
    if isinstance(known, types.UnionType):
        known = known.__args__
    if isinstance(known, tuple):
        return any(is_subclass(machine, cls, ConstantValue(each), value) for each in known)
    if isinstance(value, TensorValue) and known in TENSOR_CLASSES:
        return TENSOR_CLASSES[known](value)
    if known in (None, type(None)):
        return cls is type(None)
    return compute(machine, issubclass, (cls, known)).value


# Classes whose metaclass looks at the instance.
TENSOR_CLASSES = {
    torch.nn.Parameter: lambda value: issubclass(value.python_type, torch.nn.Parameter),
    torch.nn.parameter.Buffer: lambda value: (
        value.object is not None and isinstance(value.object, torch.nn.parameter.Buffer)
    ),
    torch.FloatTensor: lambda value: value.example.dtype is torch.float32 and value.device.type == "cpu",
    torch.LongTensor: lambda value: value.example.dtype is torch.int64 and value.device.type == "cpu",
}


@meaning(issubclass)
def issubclass_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    return boolean(is_subclass(machine, machine.realize(arguments[0]).value, arguments[1]))


@meaning(callable)
def callable_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    value = machine.realize(arguments[0])
    if isinstance(value, ConstantValue):
        return boolean(callable(value.value))
    kinds = (FunctionValue, MethodValue, PartialValue)
    return boolean(isinstance(value, kinds) or lookup(value.python_type, "__call__") is not MISSING)


@meaning(id)
def id_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    raise Break(ForeignCall("id", "addresses differ from call to call"))


@meaning(hash)
def hash_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    known = constant_of(machine.known(arguments[0]))
    if type(known) is NotConstant:
        raise Break(ForeignCall("hash", "addresses differ from call to call"))
    return compute(machine, hash, (known,))


@meaning(getattr)
def getattr_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Any:
    name = machine.known(arguments[1]).value
    if len(arguments) == 2:
        return attributes.get(machine, arguments[0], name)
    found = attributes.find(machine, arguments[0], name)
    return arguments[2] if found is None else found


@meaning(hasattr)
def hasattr_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    return boolean(attributes.find(machine, arguments[0], machine.known(arguments[1]).value) is not None)


@meaning(setattr)
def setattr_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    result = attributes.set(machine, arguments[0], machine.known(arguments[1]).value, arguments[2])
    if result is not None:
        machine.finish(result)
    return NONE


@meaning(delattr)
def delattr_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    result = attributes.delete(machine, arguments[0], machine.known(arguments[1]).value)
    if result is not None:
        machine.finish(result)
    return NONE


@meaning(object.__setattr__)
def object_setattr(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    owner = machine.realize(arguments[0])
    result = attributes.set_plain(machine, owner, machine.known(arguments[1]).value, arguments[2])
    if result is not None:
        machine.finish(result)
    return NONE


@meaning(object.__getattribute__)
def object_getattribute(machine: Machine, arguments: Arguments, keywords: Keywords) -> Any:
    return attributes.plain(machine, machine.realize(arguments[0]), machine.known(arguments[1]).value)


@meaning(object.__init__, torch.nn.Module.__init_subclass__)
def object_init(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    return NONE


@meaning(object.__new__)
def object_new(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    from dynascope.capture.calls.dispatch import new_instance

    return new_instance(machine, machine.realize(arguments[0]).value)


@meaning(dict.__new__)
def dict_new(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    cls = machine.realize(arguments[0]).value
    bases = [base for base in cls.__mro__[1:] if base.__module__ in ("builtins", "collections")]
    if bases not in ([dict, object], [collections.OrderedDict, dict, object]) or has_python_method(cls, "__missing__"):
        raise Break(ForeignValue(cls.__name__, machine.expression()))
    value = InstanceValue(cls)
    value.contents = DictValue({}, bases[0])
    return value


@meaning(dict.__init__, collections.OrderedDict.__init__)
def dict_init(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    instance = machine.realize(arguments[0])
    if not isinstance(instance, InstanceValue) or instance.contents is None:
        raise Break(ForeignValue(instance.python_type.__name__, machine.expression()))
    fill(machine, instance.contents, arguments[1:], keywords)
    return NONE


@meaning(tuple.__new__)
def tuple_new(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    cls = machine.realize(arguments[0]).value
    given = elements(machine, arguments[1]) if len(arguments) > 1 else []
    return TupleValue(tuple(given), cls)


@meaning(BaseException.__new__, Exception.__new__)
def exception_new(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    value = InstanceValue(machine.realize(arguments[0]).value)
    value.arguments = tuple(arguments[1:])
    return value


@meaning(BaseException.__init__, Exception.__init__)
def exception_init(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    value = machine.realize(arguments[0])
    machine.journal.set(value, "arguments", tuple(arguments[1:]))
    return NONE


@meaning(super)
def super_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    if arguments:
        return SuperValue(machine.realize(arguments[0]).value, machine.realize(arguments[1]))
    frame = machine.frames[-1]
    cls = machine.realize(frame.slots["__class__"].content).value
    first = frame.slots.get(frame.code.co_varnames[0])
    instance = first.content if isinstance(first, CellValue) else first
    return SuperValue(cls, machine.realize(instance))


@meaning(vars)
def vars_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Any:
    return attributes.get(machine, arguments[0], "__dict__") if arguments else locals_(machine, arguments, keywords)


@meaning(locals, globals, dir, eval, exec, compile, open, input, __import__)
def locals_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    raise Break(
        ForeignCall(machine.expression().partition("(")[0] or "locals", "it reads or changes the running program")
    )


@meaning(print)
def print_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    raise Break(PrintCall("print", machine.expression()))
