"""Classes that the program makes while it is captured.

    class Pair(Base): scale = k     a real class, so that Python answers what it is a subclass of and where its methods are found;
                                    what stands in it is `machine.classes[Pair]`, and the class has something of the same kind

The program's function makes a class of its own each time, so this one leaves the capture by no way: where the program keeps it, or
an object of it, the graph ends before (`capture.parts`).
"""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

from dynascope.capture.protocols.classes import MADE, is_made
from dynascope.capture.values import (
    ConstantValue,
    DescriptorValue,
    DictValue,
    FunctionValue,
    NotConstant,
    TupleValue,
    Value,
    constant_of,
)

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine


class Placeholder:
    """Stands in a class for what only the capture knows."""


def real_entry(value: Value) -> Any:
    """What a class holds for the value: itself where it is known and cannot change, else something that is found alike."""
    if isinstance(value, ConstantValue):
        return value.value
    if isinstance(value, FunctionValue):
        return value.object if value.object is not None else function_like(value)
    if isinstance(value, DescriptorValue):
        return value.cls(*map(real_entry, value.parts))
    known = constant_of(value) if isinstance(value, (DictValue, TupleValue)) else NotConstant(value)
    return Placeholder() if type(known) is NotConstant else known


def function_like(value: FunctionValue) -> types.FunctionType:
    """Never called: what its cells hold is known to the capture alone. What `abc` asks of it is told."""
    cells = tuple(types.CellType() for _ in value.code.co_freevars)
    made = types.FunctionType(value.code, value.globals, value.code.co_name, None, cells)
    marked = value.attributes.get("__isabstractmethod__")
    if isinstance(marked, ConstantValue):
        made.__isabstractmethod__ = marked.value
    return made


def enter(machine: Machine, cls: type, entries: dict[str, Value]) -> None:
    """From now on the class is one that the program made."""
    type.__setattr__(cls, MADE, True)
    machine.classes[cls] = entries


def put(machine: Machine, cls: type, name: str, item: Value) -> None:
    """`cls.name = item`."""
    item = machine.realize(item)
    before = cls.__dict__.get(name, MADE)
    machine.journal.set_item(machine.classes[cls], name, item)
    undo = (lambda: type.__delattr__(cls, name)) if before is MADE else (lambda: type.__setattr__(cls, name, before))
    type.__setattr__(cls, name, real_entry(item))
    machine.journal.record(undo)


__all__ = ["enter", "function_like", "is_made", "put", "real_entry"]
