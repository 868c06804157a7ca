"""`dynascope doctor`: line by line `ok`, or what is wrong with the exact command that repairs it."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import shutil
import sys
from collections.abc import Callable
from typing import Literal

from dynascope.dataclass import dataclass
from dynascope.report.reason import Reason


@dataclass(frozen=True)
class Finding:
    """`optional` findings that fail cost a feature, not the product."""

    subject: str
    state: Literal["ok", "optional", "broken"]
    text: str
    repair: str = ""


def doctor() -> int:
    """Print every finding; 1 where something that is needed is broken."""
    findings = [check() for check in CHECKS]
    for finding in findings:
        print(f"{finding.subject:12} {finding.state:9} {finding.text}")
        if finding.repair:
            print(f"{'':22} repair: {finding.repair}")
    return 1 if any(finding.state == "broken" for finding in findings) else 0


def _interpreter() -> Finding:
    from dynascope.requirements import PYTHONS, spelled, unserved_python

    text = f"{platform.python_implementation()} {platform.python_version()} at {sys.executable}"
    if unserved_python() is not None:
        return Finding("interpreter", "broken", text, f"use CPython {spelled(PYTHONS[0])} or later")
    return Finding("interpreter", "ok", text + _beside_tested(sys.version_info[:2], PYTHONS))


def _torch() -> Finding:
    from dynascope.requirements import TORCHES, numbers, torch_version, unmet_requirement

    unmet = unmet_requirement()
    if unmet is not None:
        return _from_reason("torch", "broken", unmet)
    found = torch_version()
    return Finding("torch", "ok", f"torch {found or 'without metadata'}{_beside_tested(numbers(found), TORCHES)}")


def _beside_tested(found: tuple | None, tested: tuple) -> str:
    """Nothing for what was tested."""
    from dynascope.requirements import spelled

    if found is not None and found <= tested[1]:
        return ""
    return f" (newer than what was tested: {spelled(tested[0])} to {spelled(tested[1])})"


def _frame_hook() -> Finding:
    from dynascope.frame import hook

    note = hook.note()
    if note is not None:
        return Finding("frame hook", "optional", note.message, note.remedy)
    return Finding("frame hook", "ok", "built and loaded")


def _compiler() -> Finding:
    from dynascope.native.toolchain import ToolchainError, build_shared_object, find_compiler

    found = find_compiler("c++")
    try:
        build_shared_object('extern "C" int answer() { return 42; }\n', language="c++", flags=("-O2",), name="doctor")
    except ToolchainError as error:
        return _from_reason("C++ compiler", "optional", error.reason)
    return Finding("C++ compiler", "ok", found.title if found else "found")


def _triton() -> Finding:
    try:
        version = importlib.metadata.version("triton")
    except importlib.metadata.PackageNotFoundError:
        repair = f"{sys.executable} -m pip install triton (needed for GPU kernels only)"
        return Finding("Triton", "optional", "not installed", repair)
    return Finding("Triton", "ok", f"triton {version}")


def _gpu() -> Finding:
    if importlib.util.find_spec("torch") is None:
        return Finding("GPU", "optional", "cannot be looked for without torch")
    import torch

    if torch.cuda.is_available():
        return Finding("GPU", "ok", torch.cuda.get_device_name())
    if torch.version.cuda is None:
        return Finding("GPU", "optional", "this torch is a CPU build: kernels are C++")
    driver = (
        "`nvidia-smi` shows whether the driver is loaded" if shutil.which("nvidia-smi") else "no NVIDIA driver here"
    )
    return Finding("GPU", "optional", f"torch finds none ({driver}): kernels are C++")


def _cache() -> Finding:
    from dynascope.native.cache import cache_folder, cache_note

    folder = cache_folder()
    note = cache_note()
    if note is not None:
        return Finding("cache", "optional", note.message, note.remedy)
    free = shutil.disk_usage(folder).free
    if free < 64 << 20:
        return Finding("cache", "optional", f"{folder} has {free >> 20} MiB left", f"rm -r {folder}")
    return Finding("cache", "ok", f"{folder} ({free >> 30} GiB free)")


def _server() -> Finding:
    missing = [name for name in ("dynascope_server", "pygls", "lsprotocol") if importlib.util.find_spec(name) is None]
    if not missing:
        return Finding("server", "ok", "dynascope_server can be started")
    repair = f"{sys.executable} -m pip install dynascope (the VS Code extension carries its own)"
    return Finding("server", "optional", f"{', '.join(missing)} not installed in this interpreter", repair)


def _from_reason(subject: str, state: Literal["optional", "broken"], reason: Reason) -> Finding:
    return Finding(subject, state, reason.message(), reason.remedy())


def _guarded(subject: str, check: Callable[[], Finding]) -> Callable[[], Finding]:
    """A check that itself fails is a finding, not the end of the list."""

    def run() -> Finding:
        try:
            return check()
        except Exception as error:
            return Finding(
                subject,
                "broken",
                f"{type(error).__name__}: {error}",
                f"{os.path.basename(sys.executable)} -m dynascope doctor",
            )

    return run


CHECKS = tuple(
    _guarded(subject, check)
    for subject, check in (
        ("interpreter", _interpreter),
        ("torch", _torch),
        ("frame hook", _frame_hook),
        ("C++ compiler", _compiler),
        ("Triton", _triton),
        ("GPU", _gpu),
        ("cache", _cache),
        ("server", _server),
    )
)
