"""The frame hook: the C types that turn calls to compiled code, built once and loaded here.

    table = EntryTable(function.__code__, on_miss)       the compiled entries of one code object
    table.add(Entry(program, specialised_code, owner))
    compiled = table.bind(function)                      a callable: the first entry that holds runs, else on_miss
    watch(choose)                                        frames of chosen codes go through their tables too (PEP 523)

Where the C part cannot be built, the same names come from `hook_fallback` (right, and slower; nothing can be watched):
`note()` says why, `is_native()` whether.
"""

from __future__ import annotations

import contextlib
import importlib.machinery
import importlib.util
import sys
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FunctionType, ModuleType

from dynascope.frame import hook_build
from dynascope.frame.hook_reasons import ForeignEvaluator, HookNotBuilt, HookUnfit, PythonHeadersMissing
from dynascope.native.toolchain import ToolchainError
from dynascope.report.reason import Explanation, Reason


def is_native() -> bool:
    """Whether the C hook serves."""
    return _refusal is None


def note() -> Explanation | None:
    """Why the C hook does not serve; None where it does."""
    return None if _refusal is None else _refusal.explain()


def foreign_evaluator_note() -> Explanation | None:
    """Says so where torch.compile or another tool evaluates frames too."""
    return ForeignEvaluator().explain() if _hook.foreign_evaluator() else None


@contextlib.contextmanager
def suspended() -> Iterator[None]:
    """No capture and no watching in this thread: for the time in which the compiler itself runs."""
    _hook.suspend()
    try:
        yield
    finally:
        _hook.resume()


@contextlib.contextmanager
def watching(choose: Callable[[FunctionType], object]) -> Iterator[None]:
    """watch() for the time of a block."""
    watch(choose)
    try:
        yield
    finally:
        unwatch()


def _load() -> tuple[ModuleType, Reason | None]:
    reason = _why_unfit()
    if reason is None:
        try:
            return _load_native(), None
        except ToolchainError as error:
            reason = _explain_build(error.reason)
        except (ImportError, OSError, _SelfTestFailed) as error:
            reason = HookUnfit(_version(), str(error))
    from dynascope.frame import hook_fallback

    return hook_fallback, reason


class _SelfTestFailed(Exception):
    """A hook that loads and gives a wrong answer."""


def _why_unfit() -> Reason | None:
    if sys.implementation.name != "cpython" or not (3, 11) <= sys.version_info[:2] <= (3, 13):
        return HookUnfit(_version(), "it knows the frames of CPython 3.11, 3.12 and 3.13 only")
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        return HookUnfit(_version(), "it relies on the GIL, which this build is without")
    return None


def _version() -> str:
    return sys.version.split()[0]


def _load_native() -> ModuleType:
    path = hook_build.shared_object()
    loader = importlib.machinery.ExtensionFileLoader("dynascope_hook", str(path))
    specification = importlib.util.spec_from_file_location("dynascope_hook", path, loader=loader)
    module = importlib.util.module_from_spec(specification)
    loader.exec_module(module)
    _test(module)
    return module


def _explain_build(reason: Reason) -> Reason:
    if reason.code == "compilation-failed" and not Path(hook_build.include_folder(), "internal", "pycore_frame.h").exists():
        return PythonHeadersMissing(hook_build.include_folder(), f"{sys.version_info[0]}.{sys.version_info[1]}")
    return HookNotBuilt(reason.message(), reason.remedy())


def _test(module: ModuleType) -> None:
    """One call through a dispatcher and one through the frame hook, before anything of the user's depends on them."""

    def original(a, b=2):
        return a, b

    def specialised(a, b=2):
        c = [a, b]
        return c, "specialised"

    check = (module.OPERATIONS["CHECK_TYPE"], 0, 0, int)
    table = module.EntryTable(original.__code__)
    table.add(module.Entry(module.GuardProgram(2, [check]), specialised.__code__))
    wanted = [([1, 2], "specialised"), ("x", 2)]
    if [table.bind(original)(1), table.bind(original)("x")] != wanted:
        raise _SelfTestFailed("a dispatcher answered wrongly")
    module.watch(lambda function: table if function is original else None)
    try:
        answers = [original(1), original("x")]
    finally:
        module.unwatch()
    if answers != wanted:
        raise _SelfTestFailed("a watched frame answered wrongly")


_hook, _refusal = _load()

Entry = _hook.Entry
EntryTable = _hook.EntryTable
Dispatcher = _hook.Dispatcher
GuardProgram = _hook.GuardProgram
GatedMethod = _hook.GatedMethod
LoadingCall = _hook.LoadingCall
OPERATIONS: dict[str, int] = _hook.OPERATIONS
watch: Callable[[Callable[[FunctionType], object]], None] = _hook.watch
unwatch: Callable[[], None] = _hook.unwatch
forget: Callable[[CodeType], None] = _hook.forget
foreign_evaluator: Callable[[], bool] = _hook.foreign_evaluator
is_suspended: Callable[[], bool] = _hook.is_suspended
use_values = _hook.use_values
configure_tensors = _hook.configure_tensors
try_probe = _hook.try_probe
