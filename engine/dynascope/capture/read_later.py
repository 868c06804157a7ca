"""What the backward pass of a custom function reads: it is followed with the forward pass, and runs later.

    ctx.scale * gradient              what the context holds was put there by the forward pass
    EPSILON, ctx.dtype, other(x)      names and what cannot change are taken to be the same then
    ctx.layer.scale, settings["k"]    an object from outside may hold something else by then

Only the program's own code is asked: what libraries look up in tables of theirs are names.
"""

from __future__ import annotations

import enum
from typing import Any

from dynascope.capture.frames import Frame
from dynascope.capture.guard_log import is_fixed
from dynascope.capture.places import is_library
from dynascope.capture.values import UNSEEN, DictValue, InstanceValue, ListValue, NullValue, SetValue, Value


def object_read(result: Value | None, frame: Frame) -> Value | None:
    """The object from outside that an instruction gave, or has put on the stack, where its contents may change."""
    if is_library(frame.globals):
        return None
    on_top = (value for value in reversed(frame.stack[-2:]) if not isinstance(value, NullValue))
    value = next(on_top, None) if result is None else result
    if value is not None and value.__class__ in UNSEEN:
        value = value.realize()
    return value if value is not None and may_change(value) else None


def may_change(value: Value) -> bool:
    if not isinstance(value, (DictValue, ListValue, SetValue, InstanceValue)) or value.source is None or is_fixed(value.source):
        return False
    return not is_frozen(value.python_type)


def is_frozen(cls: type) -> bool:
    parameters: Any = getattr(cls, "__dataclass_params__", None)
    return issubclass(cls, enum.Enum) or bool(getattr(parameters, "frozen", False))
