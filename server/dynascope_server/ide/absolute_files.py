"""Every span of a report under its absolute path."""

from __future__ import annotations

import functools
import os
from typing import TypeVar

from dynascope.report.spoken_files import with_files

T = TypeVar("T")


def absolute(value: T, folder: str) -> T:
    """The same report with each relative file name resolved against the folder the program ran in. What has none stays itself."""
    return with_files(value, lambda path: absolute_path(path, folder))


@functools.lru_cache(maxsize=1024)
def absolute_path(path: str, folder: str) -> str:
    return path if path.startswith("<") else os.path.normpath(os.path.join(folder, path))
