"""What the backward pass of a custom function reads: it is followed with the forward pass, and runs later.

    ctx.scale * gradient              what the context holds was put there by the forward pass
    ctx.dtype, other(x)               what cannot change is the same then
    EPSILON, Options.scale            names of numbers, tensors, functions and classes are looked up again then (`names_read.py`)
    settings["scale"]                 so is an entry of a dictionary that has a name
    ctx.layer.scale, len(settings)    an object from outside may hold something else by then

Only the program's own code is asked: what libraries look up in tables of theirs are names.
"""

from __future__ import annotations

import enum
import functools
import types
import weakref
from dataclasses import replace
from typing import Any

from dynascope.autograd_functions import NameRead
from dynascope.capture.frames import Frame
from dynascope.capture.guard_log import is_fixed
from dynascope.capture.places import is_library_name
from dynascope.capture.values import (
    UNSEEN,
    ConstantValue,
    DictValue,
    InstanceValue,
    ListValue,
    NullValue,
    SetValue,
    TensorValue,
    Value,
)
from dynascope.dataclass import dataclass
from dynascope.guards.source import (
    AttributeSource,
    CellSource,
    ConstantSource,
    DictionaryAttributeSource,
    FrameValues,
    GlobalSource,
    ItemSource,
    Source,
)

BY_NAME = frozenset(("LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF"))
SUBSCRIPT = "BINARY_SUBSCR"


def value_given(result: Value | None, frame: Frame) -> Value | None:
    """What an instruction of the program's gave, or has put on the stack."""
    if not frame.is_own:
        return None
    on_top = (value for value in reversed(frame.stack[-2:]) if not isinstance(value, NullValue))
    value = next(on_top, None) if result is None else result
    return value.realize() if value is not None and value.__class__ in UNSEEN else value


def name_read(value: Value | None, values: FrameValues) -> NameRead | None:
    """How a number, text, tensor, function or class of the program is looked up again. What the library has stays; so do modules."""
    if not isinstance(value, (ConstantValue, TensorValue)) or value.source is None:
        return None
    is_tensor = isinstance(value, TensorValue)
    found = value.object if is_tensor else value.value
    stays = isinstance(found, types.ModuleType) or not is_tensor and is_library_name(getattr(found, "__module__", None) or "")
    place = None if stays else place_of_name(value.source, values)
    if place is None:
        return None
    return NameRead.of(value.source.expression(), functools.partial(place.read, NO_FRAME), found)


NO_FRAME = FrameValues({}, {}, {})
"""Places that hang on an object itself ask nothing of a frame."""


def place_of_name(source: Source, values: FrameValues) -> Source | None:
    """A name of a module, a variable or what a class or module holds, by the object that holds it: None of other places."""
    if isinstance(source, GlobalSource):
        holder = values.globals if source.module is None else None
        if holder is not None:
            return ItemSource(ConstantSource("globals", holder), source.name) if source.name in holder else None
        return source
    if isinstance(source, CellSource):
        cell = values.variables.get(source.name)
        return None if cell is None else AttributeSource(ConstantSource("cell", cell), "cell_contents")
    if not isinstance(source, (AttributeSource, DictionaryAttributeSource, ItemSource)):
        return None
    is_of_module = isinstance(source, ItemSource) and getattr(source.base, "name", "") == "__globals__"
    holder = source.base.read(values)
    if isinstance(holder, (type, types.ModuleType)):
        return replace(source, base=Weakly(weakref.ref(holder)))
    if type(holder) is dict and isinstance(source, ItemSource) and not is_of_module:
        base = place_of_name(source.base, values)
        return None if base is None else replace(source, base=base)
    return replace(source, base=ConstantSource("holder", holder)) if is_of_module or isinstance(holder, types.CellType) else None


@dataclass(frozen=True, slots=True)
class Weakly(Source):
    """A class or module, which is not kept alive."""

    reference: weakref.ref[Any]

    def read(self, values: FrameValues) -> Any:
        holder = self.reference()
        if holder is None:
            raise KeyError
        return holder


def may_change(value: Value) -> bool:
    """Whether it is an object from outside, the contents of which may change."""
    if not isinstance(value, (DictValue, ListValue, SetValue, InstanceValue)) or value.source is None or is_fixed(value.source):
        return False
    return not is_frozen(value.python_type)


def is_reached_by_name(frame: Frame) -> bool:
    """Whether the frame has just read a name, or an attribute of what has one (`Options.table`), and not of a context."""
    instructions, at = frame.program.instructions, frame.position
    while at and instructions[at].operation == "LOAD_ATTR":
        at -= 1
    return instructions[at].operation in BY_NAME


def is_looked_up(value: Value, frame: Frame) -> bool:
    """Whether all that comes of a dictionary, which lies on the stack, is one entry of it: it is named as a place is (`settings["k"]`)."""
    following = frame.program.instructions[frame.next : frame.next + 2]
    operations = [instruction.operation for instruction in following]
    return isinstance(value, DictValue) and value.cls is dict and value.instance is None and operations == ["LOAD_CONST", SUBSCRIPT]


def is_frozen(cls: type) -> bool:
    parameters: Any = getattr(cls, "__dataclass_params__", None)
    return issubclass(cls, enum.Enum) or bool(getattr(parameters, "frozen", False))
