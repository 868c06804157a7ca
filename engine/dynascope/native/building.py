"""One process of a host builds a file, the others wait for it: ranks that start together need the same kernels.

    with alone_with(path):
        if not is_own_file(path): build(path)

Locks are POSIX's: they belong to the process, end with it, and a fork does not inherit them. Where a disk has none, and on other systems,
each builds for itself, which is right too. Whoever has waited longer than a compiler may take does the same.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from dynascope.native.cache import is_own_file

PATIENCE = 300.0
_PAUSE = 0.005


@contextmanager
def alone_with(*paths: Path) -> Iterator[None]:
    """While no other process of this host is in such a block for one of these files."""
    held = [lock for path in sorted(paths) if (lock := _locked(path.with_suffix(".lock"))) is not None]
    try:
        yield
    finally:
        _close(held)


def _close(locks: Iterable[object]) -> None:
    for lock in locks:
        lock.close()  # type: ignore[attr-defined]


def _locked(path: Path) -> object | None:
    try:
        import fcntl
    except ImportError:
        return None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = open(path, "ab")  # noqa: SIM115 (it stays open for as long as it is locked)
    except OSError:
        return None
    deadline = time.monotonic() + PATIENCE
    while is_own_file(path):
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return file
        except (BlockingIOError, PermissionError):
            if time.monotonic() > deadline:
                break
            time.sleep(_PAUSE)
        except OSError:
            break
    file.close()
    return None
