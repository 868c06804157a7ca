"""The stages are imported when the first function is compiled: once, whole, by one thread.

    load()
    with whole(): ...      what may import parts of them
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from dynascope.garbage import without_collections
from dynascope.native.forking import safe_in_children

_first_use = safe_in_children(threading.RLock(), outermost=True)
_loaded: list[bool] = []


@contextmanager
def whole() -> Iterator[None]:
    """Until the engine is there, a fork waits: in a child nobody ends an import that another thread began, and who asks for it hangs."""
    if _loaded:
        yield
        return
    with _first_use:
        yield


def load() -> None:
    """The C hook is first used when a function is bound: the compiler works on it while the stages are imported."""
    with whole():
        if _loaded:
            return
        from dynascope.frame import hook_build

        hook_build.begin()
        import torch

        # A mode that is on would be told of what the stages make as they are imported.
        with torch._C.DisableTorchFunction(), without_collections():
            importlib.import_module("dynascope.pipeline")
            importlib.import_module("dynascope.compiled_module")
        _loaded.append(True)
