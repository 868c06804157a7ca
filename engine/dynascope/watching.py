"""Programs that ask for no compilation: their outermost functions and `forward`s that take tensors are compiled.

A function qualifies by where it is written (below the program's folder, not in an environment) and, at its first calls,
by what it is given. What it calls is inlined by capture, so only the outermost one becomes a region. A library's module
is one where the program's files call it outside of those, or have a library call it (`watched_modules.py`).
"""

from __future__ import annotations

import inspect
import os
import sys
import types
import weakref
from collections.abc import Callable
from typing import Any

from dynascope import loading
from dynascope.callers import calling_place
from dynascope.configuration import Options, config
from dynascope.frame.hook_reasons import FunctionsNotFound
from dynascope.report.reason import Reason
from dynascope.report.span import Span
from dynascope.report.syntax import callee
from dynascope.watched_calls import FirstCalls
from dynascope.watched_modules import CallsOfModules

ENVIRONMENTS = ("site-packages", "dist-packages")
CALL_OF_A_MODULE = "Module._wrapped_call_impl"
MARKED_BY_TORCH = "_torchdynamo_disable"
"""What torch's `skip` leaves on the function itself."""
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
    hook.watch(_Watched(prefix, chosen).table_for)
    return None


def _overruled_options() -> Options:
    from dynascope.api import overruled_options

    return overruled_options(config)


class _Watched:
    """What is compiled of the program's files: functions that qualify, and modules of libraries that others of its code call."""

    def __init__(self, prefix: str, options: Options) -> None:
        self.prefix, self.options = prefix, options
        self.compiled: set[tuple[str, int]] = set()
        """Where the functions are written that are compiled; what is left of one after a break is written there too."""
        self.unknown: set[str] = set()
        """The words said of a backend that is not there."""

    def table_for(self, function: types.FunctionType) -> Any:
        """None is for good. Before the program imported torch nothing takes a tensor, and torch is not imported for it; nor is it
        where the program has a `torch.py` of its own."""
        if not hasattr(sys.modules.get("torch"), "_C"):
            return None
        code = function.__code__
        if function.__qualname__ == CALL_OF_A_MODULE and function.__module__ == "torch.nn.modules.module":
            loading.load()
            from dynascope.pipeline import calls_of

            return calls_of(code, CallsOfModules(self._asks, self._is_own, self._compile_module))
        if not qualifies(code, self.prefix) or code in _left_alone or vars(function).get(MARKED_BY_TORCH):
            return None
        loading.load()
        from dynascope.capture import is_step_code

        if is_step_code(code):
            return None
        from dynascope.pipeline import make_table

        return make_table(function, self.options, accepts=_CallsForBackend(self, code))

    def backend_is_known(self) -> bool:
        """Asked when the first call comes: the program may register it until then."""
        from dynascope.backends import DEFAULT, UnknownBackend, find_backend

        backend: Any = self.options.backend
        if backend == DEFAULT:
            return True
        try:
            find_backend(backend)
        except UnknownBackend as error:
            _say_once(str(error), self.unknown)
            return False
        return True

    def _is_own(self, code: types.CodeType) -> bool:
        return is_below(code.co_filename, self.prefix)

    def _asks(self, code: types.CodeType) -> bool:
        """Whether code that calls a module is the program's, and not compiled itself. What `__init__` calls is a trial of sizes."""
        written_at = (code.co_filename, code.co_firstlineno)
        return self._is_own(code) and code.co_name != "__init__" and written_at not in self.compiled

    def _compile_module(self, module: Any) -> bool:
        from dynascope.api import compile_calls
        from dynascope.capture import reason_to_stand_aside

        if reason_to_stand_aside() is not None or not self.backend_is_known():
            return False
        compile_calls(module, self.options, _called_at)
        return True


def qualifies(code: types.CodeType, prefix: str) -> bool:
    """Whether code is a plain function, or a lambda, of the user's own files."""
    if code.co_flags & NEVER or code.co_filename.startswith("<"):
        return False
    if code.co_name.startswith("<") and code.co_name != "<lambda>":
        return False
    return is_below(code.co_filename, prefix)


def is_below(file: str, prefix: str) -> bool:
    """Whether a file lies in the program's folder, and in no environment there."""
    file = os.path.abspath(file)
    if not file.startswith(prefix):
        return False
    inside = file[len(prefix) :].split(os.sep)
    return not any(part in ENVIRONMENTS or part.startswith(".") for part in inside)


def _called_at() -> Span | None:
    place = calling_place()
    return None if place is None else callee(place)


class _CallsForBackend(FirstCalls):
    """Of these, none where there is no such backend."""

    def __init__(self, watched: _Watched, code: types.CodeType) -> None:
        super().__init__()
        self.watched, self.written_at = watched, (code.co_filename, code.co_firstlineno)

    def __call__(self, values: Any, give_up: Callable[[], None]) -> bool | Reason:
        accepted = super().__call__(values, give_up)
        if accepted is not True:
            return accepted
        if not self.watched.backend_is_known():
            give_up()
            return False
        self.watched.compiled.add(self.written_at)
        return True


def _say_once(text: str, said: set[str]) -> None:
    from dynascope import recording
    from dynascope.reasons import BackendUnknown

    recorder = recording.current()
    if recorder is not None and text not in said:
        said.add(text)
        recorder.problem(BackendUnknown(text).explain())
