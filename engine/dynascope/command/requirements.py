"""Whether this interpreter can run the engine, without importing torch to find out."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import sys

from dynascope.command.reasons import MissingTorch, WrongPython, WrongTorch
from dynascope.report.reason import Reason

PYTHONS = ((3, 11), (3, 12), (3, 13))
TORCH_WANTED = ">=2.11,<2.14"
TORCH_LOWEST, TORCH_ABOVE = (2, 11), (2, 14)


def unmet_requirement() -> Reason | None:
    """The first thing missing here, or None."""
    if sys.version_info[:2] not in PYTHONS or sys.implementation.name != "cpython":
        return WrongPython(sys.executable, f"{sys.implementation.name} {sys.version.split()[0]}")
    if importlib.util.find_spec("torch") is None:
        return MissingTorch(sys.executable, TORCH_WANTED)
    found = torch_version()
    if found is not None and not TORCH_LOWEST <= numbers(found) < TORCH_ABOVE:
        return WrongTorch(sys.executable, found, TORCH_WANTED)
    return None


def torch_version() -> str | None:
    """As its metadata says; None where torch was put there without any."""
    try:
        return importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        return None


def numbers(version: str) -> tuple[int, int]:
    """The first two numbers of a version such as 2.13.0+cpu."""
    major, minor = version.split("+")[0].split(".")[:2]
    return int(major), int("".join(c for c in minor if c.isdigit()) or 0)
