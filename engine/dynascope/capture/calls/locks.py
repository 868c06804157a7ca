"""`threading.Lock` and `RLock`: a region that takes one holds it as a whole.

    with self.lock:                          the compiled code takes the lock before it does anything, asks its guards once more
        self.count += 1                      (another thread may have written meanwhile), and gives it back when all is written
        y = x * self.count

What is computed and written under the lock is so in one go for whoever takes it too. Held longer than the program asks for is only a
lock that nothing else is waited for with: the graph ends before a second one is taken where the first was given back. A lock that a
break leaves taken stays so, and the region behind it gives it back.
"""

from __future__ import annotations

import _thread
import threading
from typing import TYPE_CHECKING, Any

from dynascope.capture.calls.arguments import Arguments, Keywords, argument
from dynascope.capture.calls.registry import meaning
from dynascope.capture.protocols.truth import truth
from dynascope.capture.reasons import ForeignCall, ForeignValue, ProgramRaises
from dynascope.capture.signals import Break
from dynascope.capture.values import FALSE, NONE, TRUE, InstanceValue, Value
from dynascope.guards.source import MadeSource

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine


LOCK, RLOCK = type(_thread.allocate_lock()), _thread.RLock


@meaning(_thread.allocate_lock, LOCK)
def make_lock(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    lock = _thread.allocate_lock()
    return machine.outside.realize(lock, MadeSource(lock, threading.Lock, ()))


@meaning(RLOCK)
def make_reentrant_lock(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    lock = RLOCK()
    return machine.outside.realize(lock, MadeSource(lock, RLOCK, ()))


def methods(*names: str) -> list[Any]:
    """Those of both classes that this CPython has."""
    return [getattr(cls, name) for cls in (LOCK, RLOCK) for name in names if hasattr(cls, name)]


@meaning(*methods("acquire", "__enter__", "acquire_lock"))
def acquire(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    lock = lock_in(machine, arguments[0])
    blocking = argument(arguments, keywords, 1, "blocking", TRUE)
    waits = truth(machine, blocking) and len(arguments) < 3 and "timeout" not in keywords
    times = machine.locks.get(lock, 0)
    is_ours = isinstance(lock.source, MadeSource)
    if times > 0 and lock.cls is LOCK:
        if not truth(machine, blocking):
            return FALSE
        raise Break(ForeignCall(machine.expression(), "it waits for a lock that is taken here"))
    if times <= 0 and not is_ours:
        if not waits:
            raise Break(ForeignCall(machine.expression(), "whether it gets the lock is known only when the program runs"))
        if times < 0 or any(are_free(each) for each in machine.locks.items() if each[0] is not lock):
            raise Break(ForeignCall(machine.expression(), "a lock that was given back would still be held while it waits"))
    machine.journal.set_item(machine.locks, lock, times + 1)
    return TRUE


def are_free(use: tuple[InstanceValue, int]) -> bool:
    """Whether a lock that others may wait for was given back."""
    lock, times = use
    return times <= 0 and not isinstance(lock.source, MadeSource)


@meaning(*methods("release", "__exit__", "release_lock"))
def release(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    lock = lock_in(machine, arguments[0])
    times = machine.locks.get(lock, 0)
    if times <= 0 and (isinstance(lock.source, MadeSource) or lock in machine.locks or not is_held(lock.object)):
        raise Break(ProgramRaises("RuntimeError", machine.expression()))
    machine.journal.set_item(machine.locks, lock, times - 1)
    return NONE


def is_held(lock: threading.Lock | threading.RLock) -> bool:
    """By whoever for a plain lock, which others may give back; by this thread for the other kind."""
    return lock.locked() if isinstance(lock, LOCK) else lock._is_owned()


@meaning(*methods("locked", "locked_lock", "_is_owned"))
def is_taken(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    lock = lock_in(machine, arguments[0])
    if machine.locks.get(lock, 0) > 0:
        return TRUE
    if not isinstance(lock.source, MadeSource):
        raise Break(ForeignCall(machine.expression(), "who holds the lock is known only when the program runs"))
    return FALSE


def lock_in(machine: Machine, value: Value) -> InstanceValue:
    lock = machine.realize(value)
    if not isinstance(lock, InstanceValue) or lock.cls not in (LOCK, RLOCK):
        raise Break(ForeignValue(lock.python_type.__name__, machine.expression()))
    return lock
