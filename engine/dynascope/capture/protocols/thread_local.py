"""`threading.local`: what it holds is the dictionary of the thread that asks.

    state = threading.local()
    state.scale          the item "scale" of `state.__dict__`, which is another dictionary in another thread
"""

from __future__ import annotations

import dis
import threading
import types
from typing import TYPE_CHECKING, Any

from dynascope.capture.protocols.classes import MISSING, is_data_descriptor, lookup
from dynascope.capture.protocols.presence import missing
from dynascope.capture.values import ConstantValue, DictValue, InstanceValue, Value
from dynascope.guards.source import ThreadDictionarySource

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine


def is_thread_local(value: Value) -> bool:
    """One from outside, whose class does nothing of its own where a thread first asks it, reads or writes."""
    return (
        isinstance(value, InstanceValue)
        and issubclass(value.cls, threading.local)
        and value.object is not None
        and begins_quietly(value.cls, lookup(value.cls, "__init__"))
        and all(lookup(value.cls, name) is vars(threading.local)[name] for name in ("__getattribute__", "__setattr__", "__delattr__"))
        and not hasattr(value.cls, "__getattr__")
    )


QUIET = ("RESUME", "NOP", "CACHE", "LOAD_FAST", "LOAD_CONST", "LOAD_SMALL_INT", "BUILD_", "SWAP", "COPY", "STORE_ATTR", "RETURN_")
"""How the instructions begin that give an object's attributes their first values: none of them calls anything."""


def begins_quietly(cls: type, init: Any) -> bool:
    """`__init__` runs where a thread first asks: the check of the guards may be what asks. So nobody may notice that it ran."""
    if init is object.__init__:
        return True
    if not isinstance(init, types.FunctionType) or init.__code__.co_nlocals != 1 or init.__code__.co_argcount != 1:
        return False
    instructions = list(dis.get_instructions(init.__code__))
    stored = [lookup(cls, each.argval) for each in instructions if each.opname == "STORE_ATTR"]
    return all(each.opname.startswith(QUIET) for each in instructions) and not any(
        entry is not MISSING and is_data_descriptor(entry) for entry in stored
    )


def dictionary_of(machine: Machine, value: InstanceValue) -> DictValue:
    return machine.outside.realize(value.object.__dict__, ThreadDictionarySource(value.source))


def put(machine: Machine, value: InstanceValue, name: str, item: Value) -> None:
    held = dictionary_of(machine, value)
    machine.journal.set_item(held.items, name, (ConstantValue(name), item))
    machine.write(held)


def delete(machine: Machine, value: InstanceValue, name: str) -> None:
    held = dictionary_of(machine, value)
    if name not in held.items:
        raise missing(machine, value, name)
    machine.journal.set(held, "items", {key: pair for key, pair in held.items.items() if key != name})
    machine.write(held)
