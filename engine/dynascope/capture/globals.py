"""Names of a module: where they are found, and what is assumed of them.

The user's globals are guarded like any place. Functions, classes, modules and constants among the globals of torch and of the
standard library are noted with all other names of libraries (`world.py`), and so is every builtin, with the fact that no
global hides it.
"""

from __future__ import annotations

import builtins
import sys
from typing import TYPE_CHECKING

from dynascope.capture.frames import Frame
from dynascope.capture.places import is_constant
from dynascope.capture.values import ConstantValue, Value
from dynascope.capture.world import note
from dynascope.guards.source import AttributeSource, ConstantSource, GlobalSource, ItemSource, Source
from dynascope.guards.world import ABSENT

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine


def read_global(machine: Machine, frame: Frame, name: str) -> Value | None:
    """The value of a global or builtin name, None where there is none."""
    machine.outside.check_unwritten(frame.globals, name)
    if name in frame.globals:
        found = frame.globals[name]
        if is_constant(found) and not frame.is_own:
            note(frame.globals, name, found)
            return machine.outside.fixed(found, name)
        return machine.outside.lazy(found, source_of_global(machine, frame, name))
    own = frame.globals is machine.values.globals
    found = (machine.values.builtins if own else vars(builtins)).get(name, ABSENT)
    if found is ABSENT:
        return None
    note(frame.globals, name, ABSENT)
    note(machine.values.builtins if own else vars(builtins), name, found)
    return ConstantValue(found)


def source_of_global(machine: Machine, frame: Frame, name: str) -> Source:
    if frame.globals is machine.values.globals:
        return GlobalSource(name)
    module = frame.globals.get("__name__")
    if module in sys.modules and vars(sys.modules[module]) is frame.globals:
        note(sys.modules, module, sys.modules[module])
        return GlobalSource(name, module)
    if frame.function.source is not None:
        return ItemSource(AttributeSource(frame.function.source, "__globals__"), name)
    return ItemSource(ConstantSource(f"globals of {module}", frame.globals), name)
