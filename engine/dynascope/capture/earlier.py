"""What was there before a function is followed that eager runs at another time, or once more: has it changed any of that?

    before = Earlier(machine, [context])
    machine.call_now(backward, ...)                 calls.append("backward")
    before.is_changed(machine)                      True: the list was there, be it outside or made inside

What the function makes for itself it may change: `parts = []; parts.append(...)`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from dynascope.capture.remade import all_held
from dynascope.capture.values import CellValue, CountValue, GeneratorValue, IteratorValue, Value

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine


class Earlier:
    def __init__(self, machine: Machine, given: Iterable[Value] = ()) -> None:
        roots = [each for frame in machine.frames for each in (*frame.stack, *frame.slots.values(), frame.function)]
        self._held = all_held([*roots, *given, *machine.written, *(value for _, value in machine.global_writes.values() if value)])
        self._positions = [(value, _position(value)) for value in self._held.values() if isinstance(value, WITH_POSITIONS)]
        self._writes = len(machine.written), len(machine.rewritten)
        self._said = dict(machine.global_writes), len(machine.said)

    def is_changed(self, machine: Machine) -> bool:
        written, rewritten = self._writes
        touched = [*machine.written[written:], *machine.rewritten[rewritten:]]
        if self._said != (machine.global_writes, len(machine.said)):
            return True
        if any(value.source is not None or id(value) in self._held for value in touched):
            return True
        return any(_position(value) != before for value, before in self._positions)


WITH_POSITIONS = (CellValue, IteratorValue, GeneratorValue, CountValue)
"""What changes without being written to, as far as the machine is concerned."""


def _position(value: Value) -> Any:
    if isinstance(value, CellValue):
        return id(value.content)
    if isinstance(value, IteratorValue):
        return value.position
    return value.taken if isinstance(value, GeneratorValue) else value.next  # type: ignore[attr-defined]
