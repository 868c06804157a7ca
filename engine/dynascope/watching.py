"""Programs that ask for no compilation: their outermost functions and `forward`s that take tensors are compiled.

A function qualifies by where it is written (below the program's folder, not in an environment) and, at its first calls,
by what it is given. What it calls is inlined by capture, so only the outermost one becomes a region.
"""

from __future__ import annotations

import inspect
import os
import sys
import types
import weakref
from collections.abc import Callable
from typing import Any

from dynascope.configuration import Options, config
from dynascope.frame.hook_reasons import FunctionsNotFound
from dynascope.reasons import PreparesData
from dynascope.report.reason import Reason

CALLS_WITHOUT_TENSORS = 4
"""A function that took no tensor in its first so many calls is left alone for good."""

LOADERS = "torch.utils.data."
CALLS_OF_LOADERS = 4
"""A function whose first so many calls came from a loader of data is left alone for good."""

ENVIRONMENTS = ("site-packages", "dist-packages")
NEVER = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


_left_alone: weakref.WeakSet[types.CodeType] = weakref.WeakSet()


def leave_alone(function: Callable) -> None:
    """The function itself is never compiled; what it calls may be."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is not None:
        _left_alone.add(code)


def watch_folder(folder: str, options: Options | None = None) -> Reason | None:
    """From now on, in this thread, compile qualifying functions of files below `folder`. Or why none will be found."""
    from dynascope.frame import hook

    chosen = options or _overruled_options()
    prefix = os.path.join(os.path.abspath(folder), "")
    if not hook.is_native():
        note = hook.note()
        return None if note is None else FunctionsNotFound(note.message, note.remedy)
    unknown: set[str] = set()
    hook.watch(lambda function: _table_for(function, prefix, chosen, unknown))
    return None


def _overruled_options() -> Options:
    from dynascope.api import overruled_options

    return overruled_options(config)


def _table_for(function: types.FunctionType, prefix: str, options: Options, unknown: set[str]) -> Any:
    """None is for good. Before the program imported torch nothing takes a tensor, and torch is not imported for it; nor is it
    where the program has a `torch.py` of its own. `unknown` are the words said of a backend that is not there."""
    if not hasattr(sys.modules.get("torch"), "_C") or not qualifies(function.__code__, prefix):
        return None
    if function.__code__ in _left_alone:
        return None
    from dynascope.capture import is_step_code

    if is_step_code(function.__code__):
        return None
    from dynascope.pipeline import make_table

    return make_table(function, options, accepts=_CallsForBackend(options.backend, unknown))


def qualifies(code: types.CodeType, prefix: str) -> bool:
    """Whether code is a plain function, or a lambda, of the user's own files."""
    if code.co_flags & NEVER or code.co_filename.startswith("<"):
        return False
    if code.co_name.startswith("<") and code.co_name != "<lambda>":
        return False
    file = os.path.abspath(code.co_filename)
    if not file.startswith(prefix):
        return False
    inside = file[len(prefix) :].split(os.sep)
    return not any(part in ENVIRONMENTS or part.startswith(".") for part in inside)


class FirstCalls:
    """Whether a call's values are worth compiling for: some argument is a tensor, or a container with one. What a `DataLoader` calls to
    read and collate its samples works on many small tensors of every size, in worker processes as well: it runs as it is written."""

    def __init__(self) -> None:
        self.without_tensors = self.of_loaders = 0

    def __call__(self, values: Any, give_up: Callable[[], None]) -> bool | Reason:
        if not any(holds_tensor(value, depth=3) for value in values.locals.values()):
            self.without_tensors += 1
            if self.without_tensors >= CALLS_WITHOUT_TENSORS:
                give_up()
            return False
        if not _is_called_by_loader():
            return True
        self.of_loaders += 1
        if self.of_loaders >= CALLS_OF_LOADERS:
            give_up()
        return PreparesData()


def _is_called_by_loader() -> bool:
    frame = sys._getframe(1)
    while frame is not None:
        if str(frame.f_globals.get("__name__")).startswith(LOADERS):
            return True
        frame = frame.f_back
    return False


class _CallsForBackend(FirstCalls):
    """Of these, none where the backend is not known when the first one comes: the program may register it until then."""

    def __init__(self, backend: Any, unknown: set[str]) -> None:
        super().__init__()
        self.backend, self.unknown = backend, unknown

    def __call__(self, values: Any, give_up: Callable[[], None]) -> bool | Reason:
        accepted = super().__call__(values, give_up)
        if accepted is not True:
            return accepted
        from dynascope.backends import DEFAULT, UnknownBackend, find_backend

        if self.backend == DEFAULT:
            return True
        try:
            find_backend(self.backend)
        except UnknownBackend as error:
            give_up()
            _say_once(str(error), self.unknown)
            return False
        return True


def _say_once(text: str, said: set[str]) -> None:
    from dynascope import recording
    from dynascope.reasons import BackendUnknown

    recorder = recording.current()
    if recorder is not None and text not in said:
        said.add(text)
        recorder.problem(BackendUnknown(text).explain())


def holds_tensor(value: Any, depth: int) -> bool:
    import torch

    if isinstance(value, torch.Tensor):
        return True
    if depth and isinstance(value, (list, tuple)):
        return any(holds_tensor(item, depth - 1) for item in value[:16])
    if depth and isinstance(value, dict):
        return any(holds_tensor(item, depth - 1) for item in list(value.values())[:16])
    return False
