"""`weakref.ref(x)` made inside, and what weak references lead to.

    handle.hooks = weakref.ref(hooks)    made again from `hooks`, where it leaves
    handle.hooks()                       `hooks`, as long as the program holds it
    cache[module] = 1                    a key of a `WeakKeyDictionary`, which calls that when the module goes
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

import torch

from dynascope.capture.calls.arguments import Arguments, Keywords, is_none
from dynascope.capture.calls.registry import meaning, object_meaning
from dynascope.capture.reasons import ForeignCall, ForeignValue, ProgramRaises
from dynascope.capture.remade import holds
from dynascope.capture.signals import Break
from dynascope.capture.values import NONE, InstanceValue, Value, WeakReferenceValue
from dynascope.frame.resume import resume_origin
from dynascope.guards.source import LocalSource, ReferentSource

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine


@meaning(weakref.ReferenceType)
def make_reference(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    """Python makes one for each object, and each time one that calls something when the object goes: not before the graph has run, where
    that came from outside and is no local that may be the last to hold it."""
    of = machine.realize(arguments[0])
    callback = machine.realize(arguments[1]) if len(arguments) == 2 else NONE
    if keywords or len(arguments) > 2 or not (is_none(callback) or is_held_outside(machine, of)):
        raise Break(ForeignCall("weakref.ref", "what it calls comes when Python drops the object"))
    if of.python_type.__weakrefoffset__ == 0:
        raise Break(ProgramRaises("TypeError", machine.expression()))
    if not is_none(callback):
        return WeakReferenceValue(of, callback)
    known = machine.weak_references.get(of)
    if known is None:
        known = WeakReferenceValue(of)
        machine.journal.set_item(machine.weak_references, of, known)
    return known


def is_held_outside(machine: Machine, value: Value) -> bool:
    """What a function was given its caller holds, what a break left in a local maybe nobody else."""
    if value.source is None or not isinstance(value, InstanceValue):
        return False
    is_resumed = resume_origin(machine.frames[0].function.code) is not None
    return not is_resumed or not isinstance(value.source, LocalSource) or issubclass(value.cls, torch.nn.Module)


@object_meaning(weakref.KeyedRef)  # a value of a `WeakValueDictionary`
@object_meaning(weakref.ReferenceType)
def referent(machine: Machine, value: Value, arguments: Arguments, keywords: Keywords) -> Value:
    """A weak reference from outside that is asked for its object: the place is the answer, as it is at each call. Not where a local
    held the object when the region began, and holds it no longer: whether anything else does, Python knows."""
    if arguments or keywords or not isinstance(value, InstanceValue):
        raise Break(ProgramRaises("TypeError", machine.expression()))
    if was_let_go(machine, value.object()):
        raise Break(ForeignValue(value.python_type.__name__, machine.expression()))
    return machine.outside.realize(value.object(), ReferentSource(value.source))


def was_let_go(machine: Machine, thing: Any) -> bool:
    """By a local of the region itself, or the list, tuple or dictionary in one."""
    if thing is None:
        return False
    slots = machine.frames[0].slots
    for name, before in machine.values.locals.items():
        held = (before.values() if type(before) is dict else before) if type(before) in (list, tuple, dict) else (before,)
        if any(each is thing for each in held):
            now = slots.get(name)
            if now is None or getattr(now, "source", None) != LocalSource(name):
                return True
    return False


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
    held = [each for frame in machine.frames for each in (*frame.stack, *frame.slots.values())]
    return holds(held + [each for each in machine.written if getattr(each, "source", None) is not None], value)
