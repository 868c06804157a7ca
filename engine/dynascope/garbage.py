"""Python's collector of garbage, while we make many objects that stay."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_collections() -> Iterator[None]:
    """Imports and graphs are many objects, most of them needed until the end: to look through them for garbage again and again takes
    a quarter of a compilation, and a tenth of the import of torch. What was made is old when it ends, else the next allocation would
    look through all of it at once. Garbage of the program is collected before, so that none of it waits with ours for a full collection."""
    was_enabled = gc.isenabled()
    if was_enabled:
        gc.collect(1)
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            if not gc.get_freeze_count():  # else it is the program that froze something
                gc.freeze()
                gc.unfreeze()
            gc.enable()
