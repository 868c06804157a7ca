"""Which Python runs the user's program, and in which environment."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from dynascope_server.settings import Settings

FOLDER_INTERPRETERS = (".venv/bin/python", "venv/bin/python", ".venv/Scripts/python.exe", "venv/Scripts/python.exe")
PATH_INTERPRETERS = ("python3", "python")
OWN_PACKAGES = ("dynascope_server", "dynascope", "pygls", "lsprotocol")


def find_interpreter(settings: Settings, folder: str, path: str | None = None) -> str | None:
    """The setting as it stands (running it will tell), else the folder's environment, else the server's own Python where that
    has torch, else the first on PATH."""
    if settings.interpreter:
        expanded = os.path.expanduser(settings.interpreter)
        return os.path.join(folder, expanded) if os.sep in expanded else shutil.which(expanded, path=path) or expanded
    beside = (os.path.join(folder, name) for name in FOLDER_INTERPRETERS)
    local = next((name for name in beside if os.access(name, os.X_OK)), None)
    if local is None and importlib.util.find_spec("torch") is not None:
        return sys.executable
    return local or next((found for name in PATH_INTERPRETERS if (found := shutil.which(name, path=path))), None)


WITHOUT_FOLDER = """import sys
while "" in sys.path: sys.path.remove("")
import runpy
runpy.run_module("dynascope", run_name="__main__", alter_sys=True)
"""


def engine_command(interpreter: str, *words: str) -> list[str]:
    """`python -m dynascope WORDS`, but for the program's folder: with `-m` it would come first on the path, and a file there
    that has the name of a module that the engine uses would be imported in its place. (`-P` is unknown to older Pythons.)"""
    return [interpreter, "-c", WITHOUT_FOLDER, *words]


def engine_folders(settings: Settings) -> tuple[str, ...]:
    """What goes first on the program's PYTHONPATH: the folders that hold the package `dynascope`."""
    if settings.enginePath:
        return settings.enginePath
    found = importlib.util.find_spec("dynascope")
    return tuple(str(Path(place).parent) for place in (found.submodule_search_locations or ())) if found else ()


def program_environment(settings: Settings, inherited: Mapping[str, str]) -> dict[str, str]:
    """The server's environment less what serves the server alone, plus the engine and the user's own additions."""
    environment = {**inherited, **settings.environment}
    kept = [entry for entry in environment.get("PYTHONPATH", "").split(os.pathsep) if entry and not _is_ours(entry)]
    environment["PYTHONPATH"] = os.pathsep.join([*engine_folders(settings), *kept])
    # What the program prints should be seen when it prints it, and not be lost when it crashes.
    environment.setdefault("PYTHONUNBUFFERED", "1")
    return environment


def _is_ours(entry: str) -> bool:
    """Folders from which the server itself was imported: the user's program must not see the server's libraries."""
    folders = {Path(spec.origin).parent.parent for name in OWN_PACKAGES if (spec := _spec(name)) and spec.origin}
    return Path(entry).resolve() in {folder.resolve() for folder in folders}


def _spec(name: str):
    try:
        return importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None
