"""What capture took from namespaces that nobody is expected to change: noted by whoever looks, for one guard over all.

    with recording(log):                        one capture runs
        note(vars(math), "pi", math.pi)         the decision depended on this name

A capture runs in one thread, so each thread has a log of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dynascope.guards.world import WorldLog


class _Current(threading.local):
    log: WorldLog | None = None


_current = _Current()


def note(space: dict | type, name: str, found: Any) -> None:
    """That `space` leads from `name` to `found` (or has no such name: `ABSENT`) is assumed by the capture that runs."""
    if _current.log is not None:
        _current.log.note(space, name, found)


def note_type(space: type, name: str, found: Any) -> None:
    """That `space` leads from `name` to something of the type of `found` is assumed: that it hides nothing that instances hold."""
    if _current.log is not None:
        _current.log.note_type(space, name, found)


def note_all(space: type, names: dict[str, Any]) -> None:
    """The same of many names: `names` has what each is expected to lead to."""
    if _current.log is not None:
        _current.log.note_all(space, names)


@contextmanager
def recording(log: WorldLog) -> Iterator[None]:
    before, _current.log = _current.log, log
    try:
        yield
    finally:
        _current.log = before
