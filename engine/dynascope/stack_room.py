"""Room on Python's stack for the stages, which go down expressions as deep as a program's chain of operators is long.

    with stack_room():      the limit is higher inside, however deep the program was when it called

The limit is the process's: the last thread to leave puts it back, unless the program has set another one meanwhile.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from dynascope.dataclass import dataclass
from dynascope.native.forking import safe_in_children

FRAMES = 2000


@dataclass
class RoomState:
    inside: int = 0
    before: int = 0


_state = RoomState()
_lock = safe_in_children(threading.Lock())


@contextmanager
def stack_room() -> Iterator[None]:
    with _lock:
        if not _state.inside:
            _state.before = sys.getrecursionlimit()
            sys.setrecursionlimit(_state.before + FRAMES)
        _state.inside += 1
    try:
        yield
    finally:
        with _lock:
            _state.inside -= 1
            if not _state.inside and sys.getrecursionlimit() == _state.before + FRAMES:
                with suppress(RecursionError):  # the program itself is at the limit by a frame or two
                    sys.setrecursionlimit(_state.before)
