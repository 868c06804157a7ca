"""The C hook, built, loaded and tried; where that fails, what stands in for it and why.

part       the module with the names that frame/hook.py gives
refusal    None, or the reason why `part` is the one written in Python
followed   how many calls of the test itself a debugger followed
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from dynascope.frame import hook_build
from dynascope.frame.hook_reasons import HookNotBuilt, HookUnfit, PythonHeadersMissing
from dynascope.frame.versions import FREE_THREADED, KNOWS_FRAMES
from dynascope.native.toolchain import ToolchainError
from dynascope.report.reason import Reason


def _choose() -> tuple[ModuleType, Reason | None]:
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
    if FREE_THREADED:
        return HookUnfit(_version(), "it relies on the GIL, which this build is without")
    if sys.implementation.name != "cpython" or not KNOWS_FRAMES:
        return HookUnfit(_version(), "it knows the frames of CPython 3.11, 3.12, 3.13 and 3.14 only")
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
    headers = hook_build.include_folder()
    if reason.code == "compilation-failed" and not Path(headers, "internal", "pycore_frame.h").exists():
        return PythonHeadersMissing(headers, f"{sys.version_info[0]}.{sys.version_info[1]}")
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
    first = [table.bind(original)(1), table.bind(original)("x")]
    # Where a debugger looks on from the start, all runs as it was written.
    wanted = [(1, 2) if module.followed_calls() else ([1, 2], "specialised"), ("x", 2)]
    if first != wanted:
        raise _SelfTestFailed("a dispatcher answered wrongly")
    module.watch(lambda function: table if function is original else None)
    try:
        answers = [original(1), original("x")]
    finally:
        module.unwatch()
    if answers != wanted:
        raise _SelfTestFailed("a watched frame answered wrongly")


part, refusal = _choose()
followed = part.followed_calls()
