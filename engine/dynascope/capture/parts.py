"""What values are made of: which others must be there first, which graph nodes must be outputs.

    parts_of([x, y])                 x and y: nothing is a part of what is loaded from outside
    all_parts([{"a": [x]}])          the dict, the list, "a", x; raises `Break` where something cannot be made at all
    needs(values)                    their graph nodes, each once
"""

from __future__ import annotations

import itertools
import types
from collections.abc import Callable, Iterable
from typing import Any

from torch import fx

from dynascope.capture import functions_of_results
from dynascope.capture.distributed_values import DistributedValue
from dynascope.capture.nested_values import NestedValue
from dynascope.capture.protocols.classes import is_made
from dynascope.capture.reasons import UnrebuildableValue
from dynascope.capture.remade import remade
from dynascope.capture.signals import Break
from dynascope.capture.values import (
    DELETED,
    AddressValue,
    ArrayValue,
    CellValue,
    CompilationValue,
    ConstantValue,
    CountValue,
    DescriptorValue,
    DictValue,
    DictViewValue,
    EitherValue,
    FunctionValue,
    GeneratorValue,
    InferenceModeValue,
    InstanceDictionaryValue,
    InstanceValue,
    IteratorValue,
    ListValue,
    MethodValue,
    NullValue,
    PartialValue,
    SetValue,
    SliceValue,
    SuperValue,
    SymbolicNumber,
    TensorValue,
    TextValue,
    TracebackValue,
    TupleValue,
    Value,
    WeakReferenceValue,
    ZipValue,
)
from dynascope.guards.guard import with_article


def parts_of(value: Value) -> Iterable[Value]:
    """The values that must be made before, or put into, this one. Nothing for what is loaded from outside."""
    made = value.value if isinstance(value, ConstantValue) else getattr(value, "cls", None)
    if type(made) in (types.BuiltinMethodType, types.MethodWrapperType, types.MethodType):  # `cls.fromkeys`
        made = made.__self__
    if is_made(made):
        raise Break(UnrebuildableValue(f"the class `{made.__name__}`"))
    if value.source is not None or isinstance(value, (ConstantValue, TensorValue, SymbolicNumber, NullValue)):
        return ()
    if (instance := held_by(value)) is not None:
        return (instance,)
    rule = PARTS.get(type(value))
    if rule is None:
        raise Break(UnrebuildableValue(describe(value)))
    return rule(value)


def held_by(value: Value) -> InstanceValue | None:
    """The object of a subclass of dict or list whose contents the value is: in the program there is only that object."""
    return value.instance if isinstance(value, (DictValue, ListValue)) else None


def describe(value: Value) -> str:
    if isinstance(value, GeneratorValue):
        return f"the generator `{value.frame.code.co_qualname}`"
    if isinstance(value, AddressValue):
        return f"the `id` of {describe(value.of)}"
    return with_article(value.python_type.__name__)


def _parts_of_iterator(value: IteratorValue) -> Iterable[Value]:
    if value.has_other_keys():
        raise Break(UnrebuildableValue(describe(value)))
    if value.owner is not None or value.iterable is not None:
        return (value.owner or value.iterable,)
    if value.cls is itertools.repeat:
        return value.items[:1]
    return (value.items,) if isinstance(value.items, ListValue) else value.items[value.position :]


def _parts_of_set(value: SetValue) -> Iterable[Value]:
    if value.recipe is None and len(value.items) > 1:
        raise Break(UnrebuildableValue(f"{describe(value)} made of one from outside (no guard says its order)"))
    return value.items.values()


def _parts_of_array(value: ArrayValue) -> Iterable[Value]:
    return (value.tensor,) if value.turned is None else (value.turned[0],)


def _parts_of_method(value: MethodValue) -> Iterable[Value]:
    """A method in C works on an object of its class alone, not on what stands for one."""
    instance = value.instance
    if isinstance(instance, (IteratorValue, GeneratorValue)) and instance.source is None:
        raise Break(UnrebuildableValue(describe(instance)))
    return value.function, instance


def _parts_of_generator(value: GeneratorValue) -> Iterable[Value]:
    made = remade(value)
    if made is None:
        raise Break(UnrebuildableValue(describe(value)))
    return made.function, *made.arguments, *made.keywords.values()


def _parts_of_contents(value: InstanceValue) -> Iterable[Value]:
    """A proxy shows a dict that is an object too."""
    if value.contents is None or value.cls is types.MappingProxyType:
        return () if value.contents is None else (value.contents,)
    return PARTS[type(value.contents)](value.contents)


PARTS: dict[type, Callable[[Any], Iterable[Value]]] = {
    ListValue: lambda value: value.items,
    TupleValue: lambda value: value.items,
    DictValue: lambda value: [*itertools.chain(*value.items.values()), value.default_factory],
    SetValue: _parts_of_set,
    SliceValue: lambda value: value.parts,
    TextValue: lambda value: value.parts,
    EitherValue: lambda value: (value.condition, value.first, value.second),
    DictViewValue: lambda value: (value.dictionary,),
    IteratorValue: _parts_of_iterator,
    ZipValue: lambda value: value.parts,
    CountValue: lambda value: (),
    InferenceModeValue: lambda value: (),
    GeneratorValue: _parts_of_generator,
    InstanceValue: lambda value: [
        *value.arguments,
        *(item for item in value.attributes.values() if item is not DELETED),
        *_parts_of_contents(value),
        *([] if value.tensor is None else [value.tensor]),
    ],
    MethodValue: _parts_of_method,
    FunctionValue: lambda value: [
        *value.closure,
        *value.defaults,
        *value.keyword_defaults.values(),
        *value.attributes.values(),
    ],
    PartialValue: lambda value: (value.function, *value.arguments, *value.keywords.values()),
    CompilationValue: lambda value: (value.function, value.target, *value.keywords.values()),
    SuperValue: lambda value: (value.instance,),
    TracebackValue: lambda value: (),
    WeakReferenceValue: lambda value: (value.of, value.callback),
    functions_of_results.FunctionOfResultValue: functions_of_results.parts,
    ArrayValue: _parts_of_array,
    DistributedValue: lambda value: value.parts(),
    NestedValue: lambda value: (value.padded, value.seen),
    DescriptorValue: lambda value: value.parts,
    InstanceDictionaryValue: lambda value: (value.owner,),
    CellValue: lambda value: () if value.content is None else (value.content,),
}


def is_made_empty(value: Value) -> bool:
    """There before its parts are, which may hold it."""
    return isinstance(value, InstanceValue) and not issubclass(value.cls, BaseException)


def needs(values: Iterable[Value]) -> list[fx.Node]:
    """The graph nodes that the values are made of, each once, in the order in which they are met."""
    nodes: dict[fx.Node, None] = {}
    for value in all_parts(values):
        if isinstance(value, (TensorValue, SymbolicNumber)) and value.source is None:
            nodes[value.node] = None
    return list(nodes)


def all_parts(values: Iterable[Value]) -> list[Value]:
    """The values and all that they are made of, each once."""
    found: list[Value] = []
    seen: set[int] = set()
    making: set[int] = set()
    pending: list[Value | tuple[int]] = list(values)[::-1]
    while pending:
        value = pending.pop()
        if isinstance(value, tuple):
            making.discard(value[0])
            continue
        if id(value) in making:
            raise Break(UnrebuildableValue(f"{describe(value)} that holds itself"))
        if id(value) in seen:
            continue
        seen.add(id(value))
        found.append(value)
        parts = list(parts_of(value))
        if isinstance(value, CellValue):
            parts = [part for part in parts if id(part) not in making]  # filled when that is made
        elif parts and not is_made_empty(value):
            making.add(id(value))
            pending.append((id(value),))
        pending.extend(parts[::-1])
    return found
