"""Temporary folders that end with their process, and with the next one where it could not see to that itself.

process_folder("dynascope-proofs-")  ->  /tmp/dynascope-proofs-4711-x8s2
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import stat
import tempfile
from contextlib import suppress
from pathlib import Path


def process_folder(prefix: str) -> Path:
    """A new folder for this user alone. Those of processes that were killed are removed."""
    remove_left_behind(prefix)
    folder = Path(tempfile.mkdtemp(prefix=f"{prefix}{os.getpid()}-"))
    atexit.register(_remove_own, folder, os.getpid())
    return folder


def _remove_own(folder: Path, process: int) -> None:
    # A forked child inherits the registration, not the folder.
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)


def remove_left_behind(prefix: str) -> None:
    """The folders of processes that are gone."""
    name = re.compile(re.escape(prefix) + r"(\d+)-\w+")
    with suppress(OSError):
        for folder in Path(tempfile.gettempdir()).iterdir():
            match = name.fullmatch(folder.name)
            if match and not _is_alive(int(match[1])) and _is_own(folder):
                shutil.rmtree(folder, ignore_errors=True)


def _is_alive(process: int) -> bool:
    """In doubt it is, as on systems where asking would end it."""
    if os.name != "posix":
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


def _is_own(folder: Path) -> bool:
    try:
        facts = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(facts.st_mode) and facts.st_uid == os.getuid()
