"""Builtins that ask about objects or change them: their class, attributes, length, identity, and how they are made."""

from __future__ import annotations

import collections
import copy
import dis
import functools
import inspect
import types
from typing import TYPE_CHECKING, Any

import torch

from dynascope.capture.calls.arguments import Arguments, Keywords, is_none
from dynascope.capture.calls.constructors import fill
from dynascope.capture.calls.containers import update_by_method
from dynascope.capture.calls.pure import compute, value_of
from dynascope.capture.calls.registry import meaning
from dynascope.capture.calls.tensor_metadata import number_values
from dynascope.capture.numpy_numbers import is_dtype
from dynascope.capture.places import is_library_name, module_name
from dynascope.capture.protocols import attribute_changes, attributes, lists, tensor_flags
from dynascope.capture.protocols.abstract_classes import guard_answer
from dynascope.capture.protocols.class_names import name_in_errors
from dynascope.capture.protocols.classes import (
    MISSING,
    OWN_CLASS,
    class_source,
    has_own_method,
    has_python_method,
    is_callable,
    is_made,
    lookup,
    member,
)
from dynascope.capture.protocols.contents import base_in_c, contents_of
from dynascope.capture.protocols.length_hints import listed
from dynascope.capture.protocols.overriding import check_elements
from dynascope.capture.protocols.truth import length_of, truth
from dynascope.capture.protocols.tuples import is_plain
from dynascope.capture.protocols.weak_proxies import behind, is_proxy
from dynascope.capture.reasons import ForeignCall, ForeignValue, ProgramRaises, UnsupportedAttribute
from dynascope.capture.signals import Break, Raised
from dynascope.capture.values import (
    NONE,
    AddressValue,
    ArrayValue,
    CellValue,
    ConstantValue,
    DictValue,
    DictViewValue,
    EitherValue,
    InstanceValue,
    ListValue,
    MutableValue,
    NotConstant,
    SetValue,
    SuperValue,
    TensorValue,
    TextValue,
    TupleValue,
    Value,
    boolean,
    constant_of,
)
from dynascope.capture.world import note
from dynascope.guards.guard import IdentityIs, SubclassesAre
from dynascope.guards.world import look_up
from dynascope.meta_kernels.torch_warnings import noted
from dynascope.report.user_files import is_user_file

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine

SIZED = (ListValue, TupleValue, DictValue, SetValue)


@meaning(len)
def length(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    value = machine.known(arguments[0])
    if isinstance(value, SIZED):
        return lists.length(machine, value)
    if isinstance(value, DictViewValue):
        return ConstantValue(len(value.dictionary.items))
    if isinstance(value, TensorValue) and not machine.overriding.asks_modes:
        if value.example.dim() == 0:
            raise machine.throw(TypeError, "len() of a 0-d tensor")
        return number_values(machine, machine.extents.sizes(value)[0], len(value.example))
    if isinstance(value, ArrayValue) and value.tensor.example.dim():
        return machine.sizes.value(machine.extents.sizes(value.tensor)[0])
    if isinstance(value, ConstantValue) and not has_own_method(value, "__len__"):
        return compute(machine, len, (value.value,))
    check_elements(machine, value)
    if lookup(value.python_type, "__len__") is MISSING:
        raise machine.throw(TypeError, f"object of type {name_in_errors(value.python_type)!r} has no len()")
    return length_of(machine, value)


@meaning(isinstance)
def isinstance_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    if isinstance(arguments[0], TextValue):
        return boolean(is_subclass(machine, str, arguments[1]))
    if isinstance(arguments[0], EitherValue):
        answers = {isinstance_(machine, [each, arguments[1]], {}) for each in (arguments[0].first, arguments[0].second)}
        return answers.pop() if len(answers) == 1 else arguments[0].realize()
    return boolean(is_instance(machine, machine.realize(arguments[0]), arguments[1]))


def is_instance(machine: Machine, value: Value, classes: Value) -> bool:
    if is_proxy(value):  # it says the other's class of itself
        return is_subclass(machine, value.python_type, classes, value) or is_instance(machine, behind(machine, value), classes)
    known = constant_of(classes)
    if isinstance(known, tuple) and any(has_own_check(each, "__instancecheck__") for each in known):
        return any(is_instance(machine, value, ConstantValue(each)) for each in known)
    if has_own_check(known, "__instancecheck__"):
        return value.python_type is known or ask_class(machine, known, "__instancecheck__", value)
    if asks_users_code(value.python_type):
        return is_instance_by_protocol(machine, value, classes)
    whole = value.value if isinstance(value, ConstantValue) else getattr(value, "object", None)
    is_outside = isinstance(value, InstanceValue) and whole is not None
    if (isinstance(value, ConstantValue) or is_outside) and type(known) is not NotConstant:
        parts = known if isinstance(known, tuple) else (known,)
        if any(map(answers_itself, parts)):
            raise Break(ForeignValue(with_name(parts), machine.expression()))
        guard_answer(machine, type(whole), known, value)
        return compute(machine, isinstance, (whole, known)).value
    cls = tensor_class(value) if isinstance(value, TensorValue) else value.python_type
    return is_subclass(machine, cls, classes, value)


def is_instance_by_protocol(machine: Machine, value: Value, classes: Value) -> bool:
    """Where the type alone does not say so, `isinstance` asks the object for its `__class__`."""
    cls, known = value.python_type, constant_of(classes)
    parts = known if isinstance(known, tuple) else (known,)
    plain = all(isinstance(part, type) and not answers_itself(part) for part in parts)
    if not plain or lookup(cls, "__class__") is not OWN_CLASS:
        raise Break(ForeignValue(cls.__name__, machine.expression()))
    for part in parts:
        if cls is part or (type(part) is type and issubclass(cls, part)):
            return True
        says = machine.realize(attributes.get_now(machine, value, "__class__"))
        if not (isinstance(says, ConstantValue) and says.value is cls):
            raise Break(ForeignValue(cls.__name__, machine.expression()))
        if issubclass(cls, part):
            return True
    return False


def with_name(classes: tuple) -> str:
    return next(getattr(each, "__name__", str(each)) for each in classes if answers_itself(each))


def asks_users_code(cls: type) -> bool:
    """Whether `isinstance` runs Python code of the object's class, which may say that it is of another one. A compiled module's is ours."""
    entry = lookup(cls, "__class__")
    is_ours = isinstance(entry, property) and module_name(entry.fget).startswith("dynascope.")
    return has_python_method(cls, "__getattribute__") or not (entry is OWN_CLASS or is_ours)


def answers_itself(cls: Any) -> bool:
    """Whether the class itself says in Python what its instances and subclasses are. Of an abstract class Python asks that once for
    each other class, and remembers it: of what is installed it is asked as Python would."""
    kind = type(cls)
    asked = [lookup(kind, name) for name in ("__instancecheck__", "__subclasscheck__")]
    hook = lookup(cls, "__subclasshook__") if isinstance(cls, type) else MISSING
    own = [each for each in asked if isinstance(each, types.FunctionType)]
    if any(not is_library_name(each.__module__ or "") for each in own):
        return True
    function = getattr(hook, "__func__", None)
    return isinstance(function, types.FunctionType) and is_user_file(function.__code__.co_filename)


def has_own_check(cls: Any, name: str) -> bool:
    """Whether a metaclass of the program's answers for the class."""
    check = lookup(type(cls), name) if isinstance(cls, type) else None
    return isinstance(check, types.FunctionType) and not is_library_name(check.__module__ or "")


def ask_class(machine: Machine, cls: type, name: str, about: Value) -> bool:
    return truth(machine, machine.call_now(member(machine, type(cls), name), [machine.outside.fixed(cls, cls.__name__), about]))


@meaning(type.__instancecheck__)
def instance_check(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    """What a metaclass's own check comes to by `super()`."""
    cls, value = machine.object_of(arguments[0]), machine.realize(arguments[1])
    if not isinstance(cls, type) or asks_users_code(value.python_type):
        raise Break(ForeignValue(value.python_type.__name__, machine.expression()))
    return boolean(is_below(value.python_type, cls))


@meaning(type.__subclasscheck__)
def subclass_check(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    cls, other = (machine.object_of(each) for each in arguments)
    if not isinstance(cls, type) or not isinstance(other, type):
        raise Break(ProgramRaises("TypeError", machine.expression()))
    return boolean(is_below(other, cls))


def is_below(cls: type, base: type) -> bool:
    if not is_made(cls):
        note(cls, "__mro__", look_up(cls, "__mro__"))  # no name of a class's own: what is asked of each class noted is its order
    return base in cls.__mro__


def tensor_class(value: TensorValue) -> type:
    return value.python_type


def is_subclass(machine: Machine, cls: type, classes: Value, value: Value | None = None) -> bool:
    known = constant_of(classes)
    if type(known) is NotConstant:
        raise Break(ForeignValue(known.value.python_type.__name__, machine.expression()))
    if isinstance(known, types.UnionType):
        known = known.__args__
    if value is None and has_own_check(known, "__subclasscheck__"):
        return ask_class(machine, known, "__subclasscheck__", machine.outside.fixed(cls, cls.__name__))
    if answers_itself(known):
        raise Break(ForeignValue(getattr(known, "__name__", type(known).__name__), machine.expression()))
    if isinstance(known, tuple):
        return any(is_subclass(machine, cls, ConstantValue(each), value) for each in known)
    if isinstance(value, TensorValue) and type(known) is type(torch.FloatTensor):
        return not known.is_sparse and is_legacy(known, value)
    if isinstance(value, TensorValue) and known in tensor_flags.FLAGS:
        return tensor_flags.is_instance(machine, value, known)
    if known is type(None):
        return cls is type(None)
    if not is_made(cls):
        note(cls, "__mro__", look_up(cls, "__mro__"))  # no name of a class's own: what is asked of each class noted is its order
    guard_answer(machine, cls, known, value)
    try:
        return compute(machine, issubclass, (cls, known)).value
    except Raised:
        raise Break(ProgramRaises("TypeError", machine.expression())) from None


def is_legacy(known: Any, value: TensorValue) -> bool:
    """`torch.cuda.HalfTensor` and its like stand for a dtype on a kind of device."""
    return value.example.dtype is known.dtype and value.device.type == ("cuda" if known.is_cuda else "cpu")


@meaning(issubclass)
def issubclass_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    from dynascope.capture.outside import LITERAL_TYPES

    cls = machine.object_of(arguments[0])
    if not isinstance(cls, type):
        is_plain = type(cls) in LITERAL_TYPES or is_dtype(cls)  # of others Python asks for `__bases__`
        if is_plain and type(constant_of(arguments[1])) is type:
            raise machine.throw(TypeError, "issubclass() arg 1 must be a class")
        raise Break(ProgramRaises("TypeError", machine.expression()))
    return boolean(is_subclass(machine, cls, arguments[1]))


@meaning(type.__subclasses__)
def subclasses(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    owner = machine.object_of(arguments[0])
    if is_made(owner) or any(map(is_made, type.__subclasses__(owner))):
        raise Break(ForeignCall("__subclasses__", "it finds a class that is made here"))
    machine.guards.add(class_source(machine, owner), SubclassesAre.of(owner))
    return ListValue([machine.outside.fixed(each, each.__name__) for each in type.__subclasses__(owner)])


@meaning(callable)
def callable_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    return boolean(is_callable(machine.realize(arguments[0])))




@meaning(id)
def id_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    """Of an object from outside that a guard can ask for without keeping it: it has its address as long as it is the same."""
    value = machine.realize(arguments[0])
    real = value.value if isinstance(value, ConstantValue) else getattr(value, "object", None)
    if isinstance(value, ConstantValue) and (real is None or type(real) in (bool, type(...))):
        machine.addresses.add(id(real))
        return ConstantValue(id(real))  # there is one of each
    if value.source is None or real is None or (type(real).__weakrefoffset__ == 0 and type(real) is not str):
        if isinstance(value, (MutableValue, TensorValue)) or machine.frames[-1].globals is vars(copy):
            return AddressValue(value)
        raise Break(ForeignCall("id", "addresses differ from call to call"))
    if finds_its_copy(machine, value):
        machine.copied[value.source] = None
        return AddressValue(value)
    if value.source in machine.copied:
        raise Break(ForeignCall("id", "addresses differ from call to call"))
    machine.addressed[value.source] = None
    machine.addresses.add(id(real))
    machine.guards.add(value.source, IdentityIs(real))
    return ConstantValue(id(real))


def finds_its_copy(machine: Machine, value: Value) -> bool:
    """Whether the address is asked for to find in the notes of `copy` what was copied already: by `copy`, of a thing whose address is
    no number yet, or by a `__deepcopy__`."""
    frame = machine.frames[-1]
    if frame.globals is not vars(copy) or not isinstance(value, (TensorValue, MutableValue)):
        return frame.code.co_name == "__deepcopy__" and value.source in machine.copied
    notes = frame.slots.get("memo", NONE)
    notes = machine.realize(notes.content if isinstance(notes, CellValue) else notes)
    are_own = is_none(notes) or isinstance(notes, DictValue) and notes.source is None and int not in map(type, notes.items)
    return are_own and value.source not in machine.addressed


@meaning(hash)
def hash_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    value = machine.realize(arguments[0])
    if isinstance(value, InstanceValue) and has_python_method(value.cls, "__hash__") or has_own_method(value, "__hash__"):
        given = constant_of(machine.known(machine.call_now(attributes.special(machine, value, "__hash__"), [])))
        if isinstance(given, int):
            return compute(machine, hash, (type("Hashed", (), {"__hash__": lambda self: given})(),))
        raise Break(ForeignCall("hash", "`__hash__` gives no number that is known"))
    known = constant_of(machine.known(value))
    if type(known) is NotConstant:
        raise Break(ForeignCall("hash", "addresses differ from call to call"))
    return compute(machine, hash, (known,))


@meaning(getattr)
def getattr_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Any:
    name = name_in(machine, arguments)
    if len(arguments) == 2:
        return attributes.get(machine, arguments[0], name)
    found = attributes.find(machine, arguments[0], name)
    return arguments[2] if found is None else found


def name_in(machine: Machine, arguments: Arguments) -> str:
    """The second argument of `getattr` and its like. What is no text is for Python to complain about."""
    name = machine.object_of(arguments[1])
    if not isinstance(name, str):
        raise Break(ProgramRaises("TypeError", machine.expression()))
    return name


@meaning(hasattr)
def hasattr_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    return boolean(attributes.find(machine, arguments[0], name_in(machine, arguments)) is not None)


@meaning(setattr)
def setattr_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    result = attribute_changes.set(machine, arguments[0], name_in(machine, arguments), arguments[2])
    if result is not None:
        machine.finish(result)
    return NONE


@meaning(delattr)
def delattr_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    result = attribute_changes.delete(machine, arguments[0], name_in(machine, arguments))
    if result is not None:
        machine.finish(result)
    return NONE


@meaning(object.__setattr__)
def object_setattr(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    owner = machine.realize(arguments[0])
    result = attribute_changes.set_plain(machine, owner, machine.object_of(arguments[1]), arguments[2])
    if result is not None:
        machine.finish(result)
    return NONE


@meaning(object.__getattribute__)
def object_getattribute(machine: Machine, arguments: Arguments, keywords: Keywords) -> Any:
    return attributes.plain(machine, machine.realize(arguments[0]), machine.object_of(arguments[1]))


@meaning(types.ModuleType.__getattribute__)
def module_getattribute(machine: Machine, arguments: Arguments, keywords: Keywords) -> Any:
    module = machine.object_of(arguments[0])
    if type(module) is not types.ModuleType:
        raise Break(UnsupportedAttribute(type(module).__name__, "__getattribute__"))
    return attributes.get(machine, arguments[0], machine.object_of(arguments[1]))


@meaning(torch.nn.Module.__init_subclass__)
def module_init_subclass(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    return NONE


@meaning(object.__init__)
def object_init(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    """Arguments more than the instance are for a `__new__` or `__init__` of the class's own (`object_init`, Objects/typeobject.c)."""
    cls = machine.realize(arguments[0]).python_type
    if len(arguments) > 1 or keywords:
        if lookup(cls, "__init__") is not object.__init__:
            raise machine.throw(TypeError, "object.__init__() takes exactly one argument (the instance to initialize)")
        if lookup(cls, "__new__") is object.__new__:
            raise machine.throw(TypeError, f"{cls.__name__}.__init__() takes exactly one argument (the instance to initialize)")
    return NONE


@meaning(object.__new__)
def object_new(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    from dynascope.capture.calls.dispatch import new_instance

    cls = machine.realize(arguments[0]).value
    if len(arguments) > 1 or keywords:
        if lookup(cls, "__new__") is not object.__new__:
            raise machine.throw(TypeError, "object.__new__() takes exactly one argument (the type to instantiate)")
        if lookup(cls, "__init__") is object.__init__:
            raise machine.throw(TypeError, f"{cls.__name__}() takes no arguments")
    return new_instance(machine, cls)


def class_below(machine: Machine, value: Value, base: type) -> type:
    """The class of which `base.__new__` is to make an instance."""
    cls = machine.realize(value).value
    if not isinstance(cls, type):
        kind = name_in_errors(type(cls))
        raise machine.throw(TypeError, f"{base.__name__}.__new__(X): X is not a type object ({kind})")
    if not issubclass(cls, base):
        name = cls.__name__
        raise machine.throw(TypeError, f"{base.__name__}.__new__({name}): {name} is not a subtype of {base.__name__}")
    return cls


def check_count(machine: Machine, cls: type, given: Arguments) -> None:
    if len(given) > 1:
        raise machine.throw(TypeError, f"{cls.__name__} expected at most 1 argument, got {len(given)}")


@meaning(dict.__new__)
def dict_new(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    cls = class_below(machine, arguments[0], dict)
    base = base_in_c(cls)
    if base not in (dict, collections.OrderedDict) or lookup(cls, "__del__") is not MISSING:
        raise Break(ForeignValue(cls.__name__, machine.expression()))
    return holding(InstanceValue(cls), DictValue({}, base))


@meaning(list.__new__)
def list_new(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    cls = class_below(machine, arguments[0], list)
    if base_in_c(cls) is not list or lookup(cls, "__del__") is not MISSING:
        raise Break(ForeignValue(cls.__name__, machine.expression()))
    return holding(InstanceValue(cls), ListValue([]))


def holding(value: InstanceValue, contents: DictValue | ListValue) -> InstanceValue:
    value.contents, contents.instance = contents, value
    return value


@meaning(types.MappingProxyType)
def mapping_proxy(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    """It shows what becomes of the dict that it is made of."""
    shown = machine.realize(arguments[0]) if len(arguments) == 1 and not keywords else None
    if not isinstance(shown, DictValue):
        raise Break(ForeignCall("types.MappingProxyType", "it is made of something other than a dict"))
    proxy = InstanceValue(types.MappingProxyType)
    proxy.contents = shown
    return proxy


@meaning(list.__init__)
def list_init(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    contents = contents_of(machine, machine.realize(arguments[0]))
    if not isinstance(contents, ListValue):
        raise Break(ForeignValue("list", machine.expression()))
    if keywords and lookup(machine.realize(arguments[0]).python_type, "__new__") is list.__new__:
        raise machine.throw(TypeError, "list() takes no keyword arguments")
    check_count(machine, list, arguments[1:])
    machine.journal.set(contents, "items", listed(machine, arguments[1]) if len(arguments) > 1 else [])
    machine.write(contents)
    return NONE


@meaning(dict.__init__, collections.OrderedDict.__init__)
def dict_init(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    instance = machine.realize(arguments[0])
    contents = contents_of(machine, instance)
    if not isinstance(contents, DictValue):
        raise Break(ForeignValue(instance.python_type.__name__, machine.expression()))
    if len(arguments) > 2 and contents.cls is not dict:  # which has words of its own
        raise Break(ProgramRaises("TypeError", machine.expression()))
    check_count(machine, dict, arguments[1:])
    if contents.cls is not dict and has_python_method(instance.cls, "__setitem__"):
        return update_by_method(machine, instance, arguments[1:], keywords)
    fill(machine, contents, arguments[1:], keywords)
    machine.write(contents)
    return NONE


@meaning(tuple.__new__)
def tuple_new(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    cls = class_below(machine, arguments[0], tuple)
    if keywords and (cls is tuple or lookup(cls, "__init__") is object.__init__):
        raise machine.throw(TypeError, "tuple() takes no keyword arguments")
    check_count(machine, tuple, arguments[1:])
    given = listed(machine, arguments[1]) if len(arguments) > 1 else []
    if is_plain(cls):
        return TupleValue(tuple(given), cls)
    if lookup(cls, "__del__") is not MISSING:
        raise Break(ForeignValue(cls.__name__, machine.expression()))
    value = InstanceValue(cls)
    value.contents = TupleValue(tuple(given))
    return value


@meaning(BaseException.__new__, Exception.__new__)
def exception_new(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    value = InstanceValue(machine.realize(arguments[0]).value)
    value.arguments = tuple(arguments[1:])
    return value


@meaning(BaseException.__init__, Exception.__init__)
def exception_init(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    value = machine.realize(arguments[0])
    if keywords or not isinstance(value, InstanceValue) or value.object is not None:
        raise Break(ForeignCall(f"{value.python_type.__name__}.__init__", "what an exception holds is kept in C"))
    machine.journal.set(value, "arguments", tuple(arguments[1:]))
    return NONE


@meaning(super)
def super_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    if arguments:
        return super_of(machine, machine.realize(arguments[0]), machine.realize(arguments[1]))
    frame = machine.frames[-1]
    if not frame.code.co_argcount:
        raise machine.throw(RuntimeError, "super(): no arguments")
    instance, cell = (frame.slots.get(name) for name in (frame.code.co_varnames[0], "__class__"))
    instance = instance.content if isinstance(instance, CellValue) else instance
    if instance is None:
        raise machine.throw(RuntimeError, "super(): arg[0] deleted")
    if not isinstance(cell, CellValue):
        raise machine.throw(RuntimeError, "super(): __class__ cell not found")
    if cell.content is None:
        raise machine.throw(RuntimeError, "super(): empty __class__ cell")
    return super_of(machine, machine.realize(cell.content), machine.realize(instance))


def super_of(machine: Machine, cls: Value, instance: Value) -> SuperValue:
    if isinstance(cls, ConstantValue) and isinstance(cls.value, type):
        known = instance.value if isinstance(instance, ConstantValue) else None
        if isinstance(known, type) and issubclass(known, cls.value) or issubclass(instance.python_type, cls.value):
            return SuperValue(cls.value, instance)
    raise Break(ProgramRaises("TypeError", machine.expression()))


@meaning(vars)
def vars_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Any:
    return attributes.get(machine, arguments[0], "__dict__") if arguments else refused(machine, arguments, keywords)


@meaning(locals)
def own_locals(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    """Of a function that was called inside: what its variables hold now, in a dictionary. Asked again, Python gives the same one."""
    frame = machine.frames[-1]
    if len(machine.frames) == 1 or arguments or keywords or not asks_once(frame.code):
        return refused(machine, arguments, keywords)
    names = dict.fromkeys((*frame.code.co_varnames, *frame.code.co_cellvars, *frame.code.co_freevars))
    held = {name: frame.slots.get(name) for name in names}
    held = {name: value.content if isinstance(value, CellValue) else value for name, value in held.items()}
    return DictValue({name: (ConstantValue(name), value) for name, value in held.items() if value is not None})


@functools.lru_cache(maxsize=256)
def asks_once(code: types.CodeType) -> bool:
    """Whether a function asks for its variables at one place and has no loop."""
    if not code.co_flags & inspect.CO_OPTIMIZED or code.co_name.startswith("<"):
        return False
    instructions = list(dis.get_instructions(code))
    asked = sum(each.argval == "locals" and each.opname in ("LOAD_GLOBAL", "LOAD_NAME") for each in instructions)
    return asked == 1 and not any("BACKWARD" in each.opname for each in instructions)


@meaning(eval)
def eval_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    """Of a text that names nothing, so that what it gives hangs on nothing: `eval("2 ** 10")`, `eval(self.kernel_size)`."""
    text = constant_of(machine.known(arguments[0])) if len(arguments) == 1 and not keywords else None
    if type(text) is not str:
        return refused(machine, arguments, keywords)
    with noted() as warned:  # `1 is 1`: of what Python warns at each call
        code = compute(machine, compile, (text.strip(" \t"), "<string>", "eval")).value
    if warned or code.co_names or any(isinstance(each, types.CodeType) for each in code.co_consts):
        return refused(machine, arguments, keywords)
    return value_of(compute(machine, eval, (code, {})).value)


@meaning(globals, dir, exec, compile, open, input)
def refused(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    raise Break(
        ForeignCall(machine.expression().partition("(")[0] or "locals", "it reads or changes the running program")
    )
