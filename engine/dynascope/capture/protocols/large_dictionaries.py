"""A large dictionary from outside that the program asks for one key: nothing is said of the others.

    sys.modules["warnings"]      the item is guarded, and no import of another module compiles again
    "scipy" in sys.modules       that the key is there, or is not

Whoever looks at all of it, or writes to it, finds it as any other dictionary, and is asked from there on. So is the `__dict__` of an object
that the program has met: what is written to the object is in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynascope.capture.outside import LITERAL_TYPES, item_source
from dynascope.capture.values import ConstantValue, LazyValue, Value
from dynascope.guards.guard import HasNoKey, IsThere

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine

LARGE = 256


def item(machine: Machine, container: Value, key: Value) -> Value | None:
    """What lies there. None where that is for who knows the whole dictionary, or to be refused."""
    if not has(machine, container, key):
        return None
    value = machine.known(key).value
    return machine.outside.lazy(container.object[value], item_source(container.source, value))


def has(machine: Machine, container: Value, key: Value) -> bool | None:
    """Whether the key is there; None of another container."""
    if not _is_unread(machine, container):
        return None
    known = machine.known(key)
    if not isinstance(known, ConstantValue) or not _is_found_by_value(known.value):
        return None
    machine.outside.guard_type(container.object, container.source)
    if known.value in container.object:
        machine.guards.add(item_source(container.source, known.value), IsThere())
        return True
    machine.guards.add(container.source, HasNoKey(known.value))
    return False


def _is_unread(machine: Machine, container: Value) -> bool:
    if type(container) is not LazyValue or type(container.object) is not dict or len(container.object) < LARGE:
        return False
    outside = machine.outside
    place = id(container.object)
    is_known = container.source in outside.by_source or place in outside.by_identity or place in outside.by_dictionary
    if any(written == place for written, _ in machine.global_writes):
        return False
    return not is_known and all(map(_is_found_by_value, container.object))


def _is_found_by_value(key: Any) -> bool:
    """No code of the program's is asked where it lies."""
    return type(key) in LITERAL_TYPES and key == key
