"""Locks and begun work when the process forks: the child has one thread, and nobody there ends what another thread began.

    lock = safe_in_children(threading.RLock())      a fork waits until it is free; in the child it is
    forgotten_in_children(begun.clear)              called in each child, before it goes on

A fork waits for PATIENCE seconds at most: a thread that holds a lock may itself wait for the one that forks.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar

PATIENCE = 5.0
Lock = TypeVar("Lock")

_locks: list[Any] = []
_forgotten: list[Callable[[], Any]] = []
_acquired: list[Any] = []


def safe_in_children(lock: Lock) -> Lock:
    """A lock of the process. Whoever holds one takes only those made before it: lower layers are loaded first."""
    _locks.append(lock)
    return lock


def forgotten_in_children(forget: Callable[[], Any]) -> None:
    _forgotten.append(forget)


def _before() -> None:
    _acquired[:] = [lock for lock in reversed(_locks) if lock.acquire(timeout=PATIENCE)]


def _in_parent() -> None:
    while _acquired:
        _acquired.pop().release()


def _in_child() -> None:
    _acquired.clear()
    for lock in _locks:
        lock._at_fork_reinit()
    for forget in _forgotten:
        forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
