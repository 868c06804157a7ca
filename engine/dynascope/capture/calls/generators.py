"""Generators made inside: frames that are left at a yield and entered again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynascope.capture.signals import Break, Raised
from dynascope.capture.values import NONE, GeneratorValue, Value

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine


def closes_quietly(machine: Machine, generator: GeneratorValue) -> bool:
    """Whether nothing happens when Python drops the generator: what its handlers do then is tried, and taken back."""
    handler = generator.frame.instruction.handler
    if handler is None or handler.target.operation == "CALL_INTRINSIC_1":
        return True
    mark, doings = machine.journal.mark(), machine.doings()
    machine.journal.set(generator, "quiet", True)
    item, quiet = None, False
    try:
        with machine.catching():
            item = resume(machine, generator, thrown=machine.throw(GeneratorExit))
        quiet = generator.quiet
    except Raised as raised:
        quiet = generator.quiet and issubclass(raised.value.python_type, GeneratorExit)
    except Break:
        return False
    finally:
        quiet = quiet and machine.doings() == doings
        machine.journal.rollback(mark)
    return quiet and item is None


def resume(
    machine: Machine, generator: GeneratorValue, sent: Value = NONE, thrown: Raised | None = None
) -> Value | None:
    """Runs to the next yield and gives its value; None when the generator returned (its value is in `result`)."""
    if generator.finished:
        if thrown is not None:
            raise thrown
        return None
    frame = generator.frame
    if frame in machine.frames:
        raise machine.throw(ValueError, "generator already executing")
    snapshot = frame.snapshot()
    machine.journal.record(lambda: frame.restore(snapshot))
    frame.push(sent)
    machine.journal.set(generator, "started", True)
    doings = machine.doings()
    base = len(machine.frames)
    machine.frames.append(frame)
    if thrown is not None:
        machine.unwind(thrown, base)
    returned = machine.run(base)
    machine.journal.set(generator, "taken", generator.taken + 1)
    if machine.doings() != doings:
        machine.journal.set(generator, "quiet", False)
    if returned.suspended:
        return returned.value
    machine.journal.set(generator, "finished", True)
    machine.journal.set(generator, "object", returned.value)
    return None
