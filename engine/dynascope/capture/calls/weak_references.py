"""`weakref.ref(x)` made inside, and what weak references lead to.

    handle.hooks = weakref.ref(hooks)    made again from `hooks`, where it leaves
    handle.hooks()                       `hooks`, as long as the program holds it
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

from dynascope.capture.calls.arguments import Arguments, Keywords, is_none
from dynascope.capture.calls.registry import meaning, object_meaning
from dynascope.capture.reasons import ForeignCall, ForeignValue, ProgramRaises
from dynascope.capture.remade import holds
from dynascope.capture.signals import Break
from dynascope.capture.values import InstanceValue, Value, WeakReferenceValue
from dynascope.guards.source import ReferentSource

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine


@meaning(weakref.ReferenceType)
def make_reference(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    """Python makes one for each object. What is called when the object goes is Python's."""
    of = machine.realize(arguments[0])
    if keywords or not all(map(is_none, map(machine.realize, arguments[1:]))):
        raise Break(ForeignCall("weakref.ref", "what it calls comes when Python drops the object"))
    if of.python_type.__weakrefoffset__ == 0:
        raise Break(ProgramRaises("TypeError", machine.expression()))
    known = machine.weak_references.get(of)
    if known is None:
        known = WeakReferenceValue(of)
        machine.journal.set_item(machine.weak_references, of, known)
    return known


@object_meaning(weakref.ReferenceType)
def referent(machine: Machine, value: Value, arguments: Arguments, keywords: Keywords) -> Value:
    """A weak reference from outside that is asked for its object: the place is the answer, as it is at each call."""
    if arguments or keywords or not isinstance(value, InstanceValue):
        raise Break(ProgramRaises("TypeError", machine.expression()))
    return machine.outside.realize(value.object(), ReferentSource(value.source))


def call_reference(machine: Machine, value: WeakReferenceValue, arguments: Arguments, keywords: Keywords) -> Value:
    if arguments or keywords:
        raise Break(ProgramRaises("TypeError", machine.expression()))
    if not is_alive(machine, value.of):
        raise Break(ForeignValue(value.of.python_type.__name__, machine.expression()))
    return value.of


def is_alive(machine: Machine, value: Value) -> bool:
    """What came from outside is held there; of what was made inside something that can be seen must hold it."""
    if value.source is not None:
        return True
    return holds([each for frame in machine.frames for each in (*frame.stack, *frame.slots.values())] + machine.written, value)
