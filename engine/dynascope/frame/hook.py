"""The frame hook: the C types that turn calls to compiled code, built once and loaded here.

    table = EntryTable(function.__code__, on_miss)       the compiled entries of one code object
    table.add(Entry(program, specialised_code, owner))
    compiled = table.bind(function)                      a callable: the first entry that holds runs, else on_miss
    watch(choose)                                        frames of chosen codes go through their tables too (PEP 523)

Compiled code may return `tail_call(callable, *arguments)`, a call that takes its place, or `AS_WRITTEN`: the function as it
was written takes its place. Whoever calls compiled code otherwise than through the hook calls it by `complete`.

The C part is loaded when one of its names is first used, so that the compiler may be at work until then. Where it
cannot be built, the same names come from `hook_fallback` (right, and slower; nothing can be watched): `note()` says
why, `is_native()` whether.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from types import FunctionType, ModuleType
from typing import Any

from dynascope.frame.hook_reasons import FollowedByDebugger, ForeignEvaluator
from dynascope.report.reason import Explanation

_NAMES = (
    "Entry",
    "EntryTable",
    "Dispatcher",
    "GuardProgram",
    "GatedMethod",
    "LoadingCall",
    "AS_WRITTEN",
    "tail_call",
    "complete",
    "OPERATIONS",
    "watch",
    "unwatch",
    "forget",
    "foreign_evaluator",
    "is_suspended",
    "followed_calls",
    "resume",
    "configure_tensors",
    "try_probe",
    "use_tracer_test",
    "use_values",
)


def is_native() -> bool:
    """Whether the C hook serves."""
    return _loaded().refusal is None


def note() -> Explanation | None:
    """Why the C hook does not serve; None where it does."""
    refusal = _loaded().refusal
    return None if refusal is None else refusal.explain()


def foreign_evaluator_note() -> Explanation | None:
    """Says so where torch.compile or another tool evaluates frames too."""
    return ForeignEvaluator().explain() if _part().foreign_evaluator() else None


def followed_calls() -> int:
    """How many calls ran as they were written so far because a debugger looked on, those of the hook's own test left out."""
    return _part().followed_calls() - _loaded().followed


def followed_note(since: int = 0) -> Explanation | None:
    """Says so where there were more than `since` such calls."""
    calls = followed_calls() - since
    return FollowedByDebugger(calls).explain() if calls else None


@contextlib.contextmanager
def suspended() -> Iterator[None]:
    """No capture and no watching in this thread: for the time in which the compiler itself runs."""
    hook = _part()
    hook.suspend()
    try:
        yield
    finally:
        hook.resume()


@contextlib.contextmanager
def watching(choose: Callable[[FunctionType], object]) -> Iterator[None]:
    """watch() for the time of a block."""
    hook = _part()
    hook.watch(choose)
    try:
        yield
    finally:
        hook.unwatch()


def _part() -> ModuleType:
    """The C part, or what stands in for it."""
    return _loaded().part


def _loaded() -> ModuleType:
    from dynascope.frame import hook_native

    return hook_native


def __getattr__(name: str) -> Any:
    """The names of the C part, on first use."""
    if name not in _NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return globals().setdefault(name, getattr(_part(), name))
