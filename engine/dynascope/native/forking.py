"""Locks and begun work when the process forks: the child has one thread, and nobody there ends what another thread began.

    lock = safe_in_children(threading.RLock())      a fork waits until it is free; in the child it is
    forgotten_in_children(begun.clear)              called in each child, before it goes on
    with without_waiting(): os.fork()               of our own: the child needs nothing that the locks protect

A fork waits for PATIENCE seconds at most, for an outermost lock longer: a thread that holds a lock may itself wait for the one that
forks. A compilation does, for the threads in which it builds, so that their workers are forked without waiting.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

PATIENCE = 5.0
Lock = TypeVar("Lock")

_outermost: list[Any] = []
_locks: list[Any] = []
_forgotten: list[Callable[[], Any]] = []


class _OfThread(threading.local):
    """Several threads may fork at a time."""

    def __init__(self) -> None:
        self.waits = True
        self.acquired: list[Any] = []


_here = _OfThread()


def safe_in_children(lock: Lock, outermost: bool = False) -> Lock:
    """A lock of the process. Whoever holds one takes only those made before it: lower layers are loaded first.

    Whoever holds an outermost one takes any, nobody who holds another takes it, and it is never held while waiting for a thread.
    """
    (_outermost if outermost else _locks).append(lock)
    return lock


def forgotten_in_children(forget: Callable[[], Any]) -> None:
    _forgotten.append(forget)


@contextmanager
def without_waiting() -> Iterator[None]:
    """Forks of this thread wait for no lock. In the child all are free, whatever was half done with what they protect."""
    before, _here.waits = _here.waits, False
    try:
        yield
    finally:
        _here.waits = before


def _before() -> None:
    if _here.waits:
        # One after the other: while it waits for an outermost one, others are made.
        for locks, patience in ((_outermost, 20 * PATIENCE), (_locks, PATIENCE)):
            _here.acquired += [lock for lock in reversed(locks) if lock.acquire(timeout=patience)]


def _in_parent() -> None:
    while _here.acquired:
        _here.acquired.pop().release()


def _in_child() -> None:
    _here.acquired.clear()
    for lock in [*_outermost, *_locks]:
        lock._at_fork_reinit()
    for forget in _forgotten:
        forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
