"""A report made on another machine, with its files found among this one's.

mapped(report, ["/home/me/project"], exists)     /cluster/job7/project/model.py  ->  /home/me/project/model.py
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from dynascope.report.facts import CompileReport
from dynascope.report.reason import Explanation
from dynascope.report.user_files import is_user_file


def mapped(
    report: CompileReport,
    folders: Sequence[str],
    exists: Callable[[str], bool],
    is_same: Callable[[str, str], bool] = operator.eq,
) -> tuple[CompileReport, int]:
    """The report with each file of the user's at its place here, and how many of them are not found."""
    mapping = _Mapping(folders, exists, is_same)
    return mapping.apply(report), len(mapping.missing)


class _Mapping:
    def __init__(
        self, folders: Sequence[str], exists: Callable[[str], bool], is_same: Callable[[str, str], bool]
    ) -> None:
        self._folders, self._exists, self._is_same = folders, exists, is_same
        self._known: dict[str, str] = {}
        self.missing: set[str] = set()

    def apply(self, value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(self.apply, value))
        if not dataclasses.is_dataclass(value) or isinstance(value, type):
            return value
        changes = {
            f.name: self.apply(getattr(value, f.name)) for f in dataclasses.fields(value) if self._holds(value, f.name)
        }
        file = getattr(value, "file", None)
        if isinstance(file, str):
            changes["file"] = self.place(file)
        return dataclasses.replace(value, **changes) if changes else value

    def place(self, file: str) -> str:
        """The file under a workspace folder that agrees with the longest end of the foreign path."""
        if file not in self._known:
            self._known[file] = self._find(file)
        return self._known[file]

    def _find(self, file: str) -> str:
        """What lies where the report says is it, but where a folder has a copy: then the program was run elsewhere on this machine."""
        if not file or not is_user_file(file):
            return file
        found, is_here = self._in_folders(file), self._exists(file)
        is_open = any(Path(file).is_relative_to(folder) for folder in self._folders)
        if is_here and (is_open or found is None or not self._is_same(file, found)):
            return file
        if found is None:
            self.missing.add(file)
        return found or file

    def _in_folders(self, file: str) -> str | None:
        parts = [part for part in file.replace("\\", "/").split("/") if part not in ("", ".")]
        for start in range(len(parts)):
            for folder in self._folders:
                candidate = str(Path(folder, *parts[start:]))
                if self._exists(candidate):
                    return candidate
        return None

    def _holds(self, value: Any, name: str) -> bool:
        held = getattr(value, name)
        return isinstance(held, (tuple, Explanation)) or dataclasses.is_dataclass(held)
