"""What compiled code does with locks (`calls/locks.py`): how often each is taken when it starts, and given back when it ends.

    with lock: ...          taken once, given back once
    with lock: ...break     taken once; the region behind the break gives it back once
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dynascope.capture.values import InstanceValue
from dynascope.dataclass import dataclass
from dynascope.guards.source import MadeSource


@dataclass(frozen=True, slots=True, eq=False)
class LockUse:
    lock: InstanceValue
    taken: int
    given_back: int


def uses_of(locks: Mapping[InstanceValue, int]) -> tuple[LockUse, ...]:
    """`locks` says how much more often each is taken at the end than at the start. One that was made inside, and is free at the end,
    was nobody else's."""
    uses = (use_of(lock, times) for lock, times in locks.items())
    return tuple(use for use in uses if use.taken != use.given_back or not isinstance(use.lock.source, MadeSource))


def use_of(lock: InstanceValue, times: int) -> LockUse:
    if times < 0:
        return LockUse(lock, 0, -times)
    taken = max(times, 1)
    return LockUse(lock, taken, taken - times)


def take(locks: Sequence[Any], times: Sequence[int]) -> None:
    """Waits for each in turn."""
    held: list[Any] = []
    has_all = False
    try:
        for lock, count in zip(locks, times, strict=True):
            for _ in range(count):
                lock.acquire()
                held.append(lock)
        has_all = True
    finally:
        if not has_all:  # the wait was interrupted
            give_back(held, [1] * len(held))


def give_back(locks: Sequence[Any], times: Sequence[int]) -> None:
    for lock, count in zip(reversed(locks), reversed(times), strict=True):
        for _ in range(count):
            lock.release()
