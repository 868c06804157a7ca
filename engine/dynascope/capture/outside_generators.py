"""Generators that a break left alive, which compiled code has made (`frame/suspended.py`): followed where they wait.

    with timed("step"): y = f(x); print(y); y = y + 1          behind the print the rest of `timed` is followed too

The real one is ended when the compiled code has done what it does to its end; one that would wait elsewhere is left to Python.
"""

from __future__ import annotations

from types import GeneratorType
from typing import TYPE_CHECKING

from dynascope.capture.frames import Frame
from dynascope.capture.signals import CaptureAgain
from dynascope.capture.values import FunctionValue, GeneratorValue, Value
from dynascope.frame.suspended import held_waiting, waiting_origin
from dynascope.guards.guard import IdentityIs
from dynascope.guards.source import AttributeSource, ItemSource, Source, WaitingSource

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine
    from dynascope.capture.outside import Outside


def can_follow(generator: GeneratorType) -> bool:
    try:
        return waiting_origin(generator) is not None and held_waiting(generator) is not None
    except ValueError:
        return False


def follow(outside: Outside, generator: GeneratorType, source: Source) -> Value:
    """The generator as it waits; its type is guarded already."""
    origin, place = waiting_origin(generator), WaitingSource(source)
    outside.machine.guards.add(AttributeSource(source, "gi_code"), IdentityIs(generator.gi_code))
    code, globals_ = origin.root, generator.gi_frame.f_globals
    held = held_waiting(generator)
    cells = (*generator.gi_code.co_freevars, *origin.cell_arguments)
    slots: dict[str, Value] = {}
    for at, name in enumerate(origin.names):
        here = ItemSource(place, at)
        is_cell = name in cells
        slots[name] = outside.cell(held[at], name, AttributeSource(here, "cell_contents")) if is_cell else outside.lazy(held[at], here)
    function = FunctionValue(code, globals_, generator.__qualname__)
    function.closure = tuple(slots[name] for name in code.co_freevars)
    frame = Frame(function, slots)
    frame.stack = [outside.lazy(held[at], ItemSource(place, at)) for at in range(len(origin.names), len(held))]
    frame.position, frame.next = origin.at, origin.at + 1
    value = GeneratorValue(frame, GeneratorType)
    frame.generator = value
    value.started, value.taken, value.source = True, 1, source
    return outside.remember(generator, value)


def check_finished(machine: Machine) -> None:
    """Of those that went on, each has come to its end."""
    if any(isinstance(value, GeneratorValue) and not value.finished for value in machine.written):
        raise CaptureAgain(follows_generators=False)
