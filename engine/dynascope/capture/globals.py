"""Names of a module: where they are found, and what is assumed of them.

The user's globals are guarded like any place. Functions, classes and modules among the globals of torch and of the
standard library are fixed: nobody replaces `torch.nn.functional` between two calls.
"""

from __future__ import annotations

import builtins
import sys
from typing import TYPE_CHECKING

from dynascope.capture.frames import Frame
from dynascope.capture.places import STABLE_TYPES, is_library_name
from dynascope.capture.values import ConstantValue, Value
from dynascope.guards.guard import IdentityIs
from dynascope.guards.source import AttributeSource, ConstantSource, GlobalSource, ItemSource, Source

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine


def read_global(machine: Machine, frame: Frame, name: str) -> Value | None:
    """The value of a global or builtin name, None where there is none."""
    if name in frame.globals:
        found = frame.globals[name]
        module = frame.globals.get("__name__", "")
        if isinstance(found, STABLE_TYPES) and module != "__main__" and is_library_name(module):
            return machine.outside.fixed(found, name)
        return machine.outside.lazy(found, source_of_global(machine, frame, name))
    if not hasattr(builtins, name):
        return None
    found = getattr(builtins, name)
    if frame.globals is machine.values.globals:
        machine.guards.add(GlobalSource(name), IdentityIs(found))
    return ConstantValue(found)


def source_of_global(machine: Machine, frame: Frame, name: str) -> Source:
    if frame.globals is machine.values.globals:
        return GlobalSource(name)
    module = frame.globals.get("__name__")
    if module in sys.modules and vars(sys.modules[module]) is frame.globals:
        return GlobalSource(name, module)
    if frame.function.source is not None:
        return ItemSource(AttributeSource(frame.function.source, "__globals__"), name)
    return ItemSource(ConstantSource(f"globals of {module}", frame.globals), name)
