"""Which class an object is of (`type(x)`), and `class` statements: the body is followed like a function, and a class is made of what
it leaves (`protocols.made_classes`).

    class Pair(Base, tag=1):        builtins.__build_class__(body, "Pair", Base, tag=1)
        scale = 2
"""

from __future__ import annotations

import builtins
import dataclasses
import inspect
import types
from typing import TYPE_CHECKING, Any

from dynascope.capture.calls import python
from dynascope.capture.calls.arguments import Arguments, Keywords
from dynascope.capture.calls.registry import meaning
from dynascope.capture.frames import Frame
from dynascope.capture.opcodes.classes import NAMESPACE
from dynascope.capture.places import is_library_name
from dynascope.capture.protocols import made_classes
from dynascope.capture.protocols.classes import (
    MADE,
    MISSING,
    Plain,
    class_source,
    has_python_method,
    is_like_plain,
    is_made,
    lookup,
    member,
)
from dynascope.capture.protocols.iteration import elements
from dynascope.capture.reasons import ForeignCall
from dynascope.capture.signals import Break
from dynascope.capture.values import (
    NONE,
    CellValue,
    ConstantValue,
    DescriptorValue,
    DictValue,
    FunctionValue,
    InstanceValue,
    TextValue,
    Value,
)

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine


@meaning(builtins.__build_class__)
def build_class(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    body, name, *bases = map(machine.realize, arguments)
    options = {key: machine.realize(value) for key, value in keywords.items()}
    if not isinstance(body, FunctionValue) or not all(isinstance(base, ConstantValue) and isinstance(base.value, type) for base in bases):
        raise cannot(machine, "its bases are no classes")
    classes = tuple(base.value for base in bases)
    metaclass = metaclass_of(machine, classes, options.pop("metaclass", None))
    frame = python.enter(machine, body, [], {})
    if not isinstance(frame, Frame):
        raise cannot(machine, "its body is no plain code")
    frame.slots[NAMESPACE] = namespace = DictValue({})
    machine.finish(frame)
    entries = {key: machine.realize(item) for key, (_, item) in namespace.items.items()}
    cells = [entries.pop(key, None) for key in ("__classcell__", "__classdictcell__")]
    made = make(machine, metaclass, machine.object_of(name), classes, entries, options)
    if isinstance(cells[0], CellValue):
        machine.journal.set(cells[0], "content", ConstantValue(made))
    tell_base(machine, made, options)
    return ConstantValue(made)


@meaning(type)
def type_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    if len(arguments) != 1 or keywords:
        return class_of_parts(machine, arguments, keywords)
    if isinstance(arguments[0], TextValue):  # whatever it says
        return ConstantValue(str)
    value = machine.realize(arguments[0])
    if value.source is None or isinstance(value, ConstantValue):
        return ConstantValue(value.python_type)
    return machine.outside.realize(value.python_type, class_source(machine, value.python_type, value))


def class_of_parts(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    """`type(name, bases, namespace, **options)`: the module that the class is said to be of is the caller's."""
    if [machine.realize(each).python_type for each in arguments] != [str, tuple, dict]:  # of others Python says which it refuses first
        raise cannot(machine, "it makes a class")
    name, namespace = machine.object_of(arguments[0]), machine.known(arguments[2])
    bases = [machine.realize(base) for base in elements(machine, arguments[1])]
    if not isinstance(namespace, DictValue) or not all(isinstance(base, ConstantValue) and isinstance(base.value, type) for base in bases):
        raise cannot(machine, "it makes a class")
    classes = tuple(base.value for base in bases)
    entries = {key: machine.realize(item) for key, (_, item) in namespace.items.items()}
    entries.setdefault("__module__", ConstantValue(machine.frames[-1].globals.get("__name__")))
    options = {key: machine.realize(value) for key, value in keywords.items()}
    made = make(machine, metaclass_of(machine, classes, None), name, classes, entries, options)
    tell_base(machine, made, options)
    return ConstantValue(made)


def cannot(machine: Machine, why: str) -> Break:
    return Break(ForeignCall(machine.expression().split("\n")[0], why))


def metaclass_of(machine: Machine, bases: tuple[type, ...], given: Value | None) -> type:
    """`type`, or one of a library, which does nothing but make classes. What a user's does is not known."""
    asked = {} if given is None else {"metaclass": machine.object_of(given)}
    if asked and not isinstance(asked["metaclass"], type):
        raise cannot(machine, "its metaclass is a function")
    found = types.prepare_class("made", bases, asked)[0] if prepares_plainly(bases, asked) else None
    if found is None or (found is not type and not is_library_name(found.__module__)):
        raise cannot(machine, "its metaclass has code of its own")
    return found


def prepares_plainly(bases: tuple[type, ...], asked: dict[str, Any]) -> bool:
    return all(lookup(kind, "__prepare__") is vars(type)["__prepare__"] for kind in (*map(type, bases), *asked.values()))


def make(
    machine: Machine, metaclass: type, name: str, bases: tuple[type, ...], entries: dict[str, Value], options: dict[str, Value]
) -> type:
    for key, item in entries.items():
        if has_python_method(item.python_type, "__set_name__"):
            raise cannot(machine, f"`{key}` asks for its name")
        if isinstance(item, InstanceValue) and lookup(item.cls, "__get__") is not MISSING:
            raise cannot(machine, f"`{key}` is a descriptor")
    names = {key: made_classes.real_entry(item) for key, item in entries.items()}
    told = first_told(bases)
    if told is not None and "__init_subclass__" not in names:
        # `Plain` stands for the program's bases while the class is made, so that these do not hear of it.
        real = (Plain,) if all(type(base) is type and is_like_plain(base) for base in bases) else None
    else:
        real = bases
    if real is None or (real is bases and told is None and not all(isinstance(each, ConstantValue) for each in options.values())):
        raise cannot(machine, "its bases do more than be there")
    keywords = {key: machine.object_of(value) for key, value in options.items()} if told is None else {}
    try:
        made = metaclass(name, real, names, **keywords)
        if real is not bases:
            made.__bases__ = bases
    except Exception as error:
        raise cannot(machine, str(error)) from None
    made_classes.enter(machine, made, entries)
    return made


def first_told(bases: tuple[type, ...]) -> Any:
    """The `__init_subclass__` of the program's that hears of the class."""
    for base in bases:
        entry = lookup(base, "__init_subclass__")
        function = getattr(entry, "__func__", None)
        if isinstance(function, types.FunctionType) and not is_library_name(function.__module__ or ""):
            return entry
    return None


def tell_base(machine: Machine, made: type, options: dict[str, Value]) -> None:
    """`super(made, made).__init_subclass__(**options)`, where it is the program's."""
    if first_told(made.__bases__) is None:
        return
    following = made.__mro__[1:]
    owner = next(base for base in following if "__init_subclass__" in base.__dict__)
    base = next(each for each in made.__bases__ if issubclass(each, owner))
    machine.call_now(member(machine, base, "__init_subclass__"), [ConstantValue(made)], options)


def wrapper(cls: type) -> None:
    @meaning(cls)
    def wrap(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
        if len(arguments) != 1 or keywords:
            raise cannot(machine, f"{cls.__name__} takes one function")
        return DescriptorValue(cls, (machine.realize(arguments[0]),))


wrapper(staticmethod)
wrapper(classmethod)
PARTS = ("fget", "fset", "fdel", "doc")


@meaning(property)
def property_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    given = dict(zip(PARTS, arguments, strict=False)) | keywords
    return DescriptorValue(property, tuple(machine.realize(given.get(part, NONE)) for part in PARTS))


def changed_part(at: int) -> Any:
    def changed(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
        before = machine.realize(arguments[0])
        if not isinstance(before, DescriptorValue):
            raise cannot(machine, "it changes a property from outside")
        parts = list(before.parts)
        parts[at] = machine.realize(arguments[1])
        return DescriptorValue(property, tuple(parts))

    return changed


for _at, _method in enumerate((property.getter, property.setter, property.deleter)):
    meaning(_method)(changed_part(_at))


@meaning(vars(object)["__init_subclass__"])
def object_hears(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    if keywords:
        raise cannot(machine, "nothing takes its keywords")
    return NONE


MAKING = inspect.signature(dataclasses._process_class)  # type: ignore[attr-defined]


@meaning(dataclasses._process_class)  # type: ignore[attr-defined]
def data_class(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    """Of a class that the program made: `dataclasses` itself writes the methods, which are followed like any."""
    given = machine.realize(arguments[0])
    options = [machine.object_of(argument) for argument in arguments[1:]]
    named = {key: machine.object_of(value) for key, value in keywords.items()}
    if not isinstance(given, ConstantValue) or not is_made(given.value):
        raise cannot(machine, "it writes the methods of a class")
    if MAKING.bind(given.value, *options, **named).arguments.get("slots"):
        raise cannot(machine, "it makes another class, with slots")
    cls, entries = given.value, machine.classes[given.value]
    before = dict(vars(cls))
    if any(type(each) is made_classes.Placeholder for each in before.values()):
        raise cannot(machine, "a default is no constant")
    try:
        dataclasses._process_class(cls, *options, **named)  # type: ignore[attr-defined]
    except Exception as error:
        raise cannot(machine, str(error)) from None
    for name, entry in vars(cls).items():
        if before.get(name, MISSING) is not entry and name != MADE:
            machine.journal.set_item(entries, name, machine.outside.fixed(entry, name))
    return given
