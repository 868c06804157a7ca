"""What this interpreter and its torch are to the engine: served, served with a note, or refused. Nothing is imported.

    unmet_requirement()     the first thing that is missing or too old: the program runs as it was written
    newer_than_tested()     what is newer, or of a version nobody knows: served, with a note and a self-check

Only what is too old is refused: a version that did not exist when this was written is most likely like the newest that did.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import re
import sys

from dynascope.reasons import BrokenTorch, MissingTorch, NewerPython, NewerTorch, WrongPython, WrongTorch
from dynascope.report.reason import Reason

Version = tuple[int, int]

# From the first to the last that is tested, both included. `pyproject.toml` and the extension name the first, too.
PYTHONS: tuple[Version, Version] = ((3, 11), (3, 14))
TORCHES: tuple[Version, Version] = ((2, 11), (2, 15))


def unmet_requirement() -> Reason | None:
    """The first thing missing here, or None."""
    python = unserved_python()
    if python is not None:
        return python
    if importlib.util.find_spec("torch") is None:
        return MissingTorch(sys.executable, lowest_torch())
    return unserved_torch(torch_version()) or _broken_torch()


def unserved_python() -> Reason | None:
    if sys.implementation.name == "cpython" and sys.version_info[:2] >= PYTHONS[0]:
        return None
    return WrongPython(sys.executable, python_name(), spelled(PYTHONS[0]))


def unserved_torch(version: str | None) -> Reason | None:
    """Why this torch is too old. One of a version that cannot be read is taken for a new one."""
    found = numbers(version)
    if found is None or found >= TORCHES[0]:
        return None
    return WrongTorch(sys.executable, str(version), lowest_torch())


def newer_than_tested(torch: str | None) -> tuple[Reason, ...]:
    """For a torch of this version in this interpreter."""
    reasons: list[Reason] = []
    if sys.version_info[:2] > PYTHONS[1]:
        reasons.append(NewerPython(spelled(sys.version_info[:2]), spelled(PYTHONS[0]), spelled(PYTHONS[1])))
    found = numbers(torch)
    if found is None or found > TORCHES[1]:
        reasons.append(NewerTorch(torch or "of an unknown version", spelled(TORCHES[0]), spelled(TORCHES[1])))
    return tuple(reasons)


def numbers(version: str | None) -> Version | None:
    """Major and minor of a version such as 2.13.0+cpu, 2.16.0.dev20261101 or 2.14.0a0+git1a2b3c4; None for other text."""
    match = re.match(r"\s*v?(\d+)\.(\d+)", version or "")
    return None if match is None else (int(match[1]), int(match[2]))


def torch_version() -> str | None:
    """As its metadata says, or its own file `version.py`; None where there is neither."""
    import importlib.metadata  # a hundredth of a second, which only commands need

    try:
        return importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        return _version_written_in(_torch_folder())


def lowest_torch() -> str:
    return f">={spelled(TORCHES[0])}"


def spelled(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def python_name() -> str:
    name = "" if sys.implementation.name == "cpython" else f"{sys.implementation.name} "
    return name + sys.version.split()[0]


def _broken_torch() -> Reason | None:
    """A folder of torch's sources, or a torch of another interpreter: it has no extension module that fits this one."""
    folder = _torch_folder()
    if folder is None:
        return BrokenTorch(sys.executable, "it is an empty folder, or no package at all")
    if any(os.path.exists(os.path.join(folder, f"_C{suffix}")) for suffix in importlib.machinery.EXTENSION_SUFFIXES):
        return None
    return BrokenTorch(sys.executable, f"{folder} has no C++ extension `_C` for Python {python_name()}")


def _torch_folder() -> str | None:
    spec = importlib.util.find_spec("torch")
    return os.path.dirname(spec.origin) if spec is not None and spec.origin else None


def _version_written_in(folder: str | None) -> str | None:
    try:
        with open(os.path.join(folder or "", "version.py"), encoding="utf-8") as file:
            match = re.search(r"__version__\s*=\s*['\"]([^'\"]+)", file.read())
    except OSError:
        return None
    return match[1] if match else None
