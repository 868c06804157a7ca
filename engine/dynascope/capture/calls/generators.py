"""Generators made inside: frames that are left at a yield and entered again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from dynascope.capture.reasons import ForeignValue
from dynascope.capture.signals import Break, Raised
from dynascope.capture.values import NONE, GeneratorValue, IteratorValue, TurnValue, Value
from dynascope.frame.versions import RUNNING

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine


def closes_quietly(machine: Machine, generator: GeneratorValue) -> bool:
    """Whether nothing happens when Python drops the generator: what its handlers do then is tried, and taken back."""
    handler = generator.frame.instruction.handler
    if handler is None or handler.target.operation == "CALL_INTRINSIC_1":
        return True
    mark, doings = machine.journal.mark(), machine.doings()
    machine.journal.set(generator, "quiet", True)
    quiet = False
    try:
        with machine.on_trial():
            close(machine, generator)
        quiet = generator.quiet
    except (Break, Raised):
        return False
    finally:
        quiet = quiet and machine.doings() == doings
        machine.journal.rollback(mark)
    return quiet


def close(machine: Machine, generator: GeneratorValue) -> Value:
    """What `generator.close()` does and gives: its frame sees GeneratorExit where it waits, and must end."""
    if generator.finished or not generator.started:
        machine.journal.set(generator, "finished", True)
        return NONE
    try:
        with machine.catching():
            item = resume(machine, generator, thrown=machine.throw(GeneratorExit))
    except Raised as raised:
        if issubclass(raised.value.python_type, GeneratorExit):
            return NONE
        raise
    if item is not None:
        raise machine.throw(RuntimeError, "generator ignored GeneratorExit")
    return generator.object if RUNNING.close_gives_result and generator.object is not None else NONE


def resume(
    machine: Machine, generator: GeneratorValue, sent: Value = NONE, thrown: Raised | None = None
) -> Value | None:
    """Runs to the next yield and gives its value; None when the generator returned (its value is in `result`)."""
    if generator.finished:
        if thrown is not None:
            raise thrown
        machine.journal.set(generator, "object", None)  # what it returned is told once
        return None
    frame = generator.frame
    if frame in machine.frames:
        raise machine.throw(ValueError, "generator already executing")
    if thrown is not None and generator.started and is_delegating(generator):
        try:
            return thrown_on(machine, generator, thrown)
        except Raised as raised:  # which the generator sees where it waits
            thrown = raised
    if generator.source is not None:
        machine.write(generator)
    snapshot = frame.snapshot()
    machine.journal.record(lambda: frame.restore(snapshot))
    frame.push(sent)
    machine.journal.set(generator, "started", True)
    doings = machine.doings()
    base = len(machine.frames)
    machine.frames.append(frame)
    with handling(machine, generator):
        if thrown is not None:
            if machine.handled is not NONE and machine.handled is not thrown.value:
                machine.journal.set_item(thrown.value.attributes, "__context__", machine.handled)
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


@contextmanager
def handling(machine: Machine, generator: GeneratorValue) -> Iterator[None]:
    """What the generator handles is its own, from one yield to the next; what its caller handles is the caller's afterwards."""
    journal, outer = machine.journal, machine.handled
    journal.set(machine, "handled_around", (*machine.handled_around, outer))
    journal.set(machine, "handled", generator.handled)
    try:
        yield
    finally:
        journal.set(generator, "handled", machine.handled)
        journal.set(machine, "handled", outer)
        journal.set(machine, "handled_around", machine.handled_around[:-1])


def is_delegating(generator: GeneratorValue) -> bool:
    """Whether it waits in a `yield from`: what is thrown into it is for the inner iterator."""
    following = generator.frame.program.instructions[generator.frame.next]
    return following.operation == "RESUME" and (following.argument or 0) & 3 in (2, 3)


def thrown_on(machine: Machine, generator: GeneratorValue, thrown: Raised) -> Value:
    """What the inner iterator of a `yield from` yields next. Raises what comes out of it."""
    inner = machine.realize(generator.frame.stack[-RUNNING.iterator_slots])
    if isinstance(inner, (IteratorValue, TurnValue)):  # of a builtin container, which has no `throw`
        raise thrown
    if not isinstance(inner, GeneratorValue):
        raise Break(ForeignValue(inner.python_type.__name__, machine.expression()))
    if issubclass(thrown.value.python_type, GeneratorExit):
        close(machine, inner)
        raise thrown
    with machine.catching():
        item = resume(machine, inner, thrown=thrown)
    if item is None:  # it ended: the generator would go on after the `yield from`
        raise Break(ForeignValue(inner.python_type.__name__, machine.expression()))
    return item
