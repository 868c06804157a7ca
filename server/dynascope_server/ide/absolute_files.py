"""Every span of a report under another file name: as an absolute path, or as the cell of a notebook."""

from __future__ import annotations

import dataclasses
import functools
import operator
import os
from collections.abc import Callable
from typing import Any, TypeVar, cast

from dynascope.report.facts import ProgramFact
from dynascope.report.span import Span

T = TypeVar("T")


def absolute(value: T, folder: str) -> T:
    """The same report with each relative file name resolved against the folder the program ran in. What has none stays itself."""
    return with_files(value, lambda path: absolute_path(path, folder))


def with_files(value: T, name_of: Callable[[str], str]) -> T:
    """The same report with `name_of` each file in place of the file."""
    if isinstance(value, tuple):
        items = [with_files(item, name_of) for item in value]
        is_same = all(map(operator.is_, items, value))
        return value if is_same else cast(T, tuple(items))
    names = _holding(type(value))
    if names is None:
        return cast(T, value)
    changed: dict[str, Any] = {}
    for name in names:
        item = getattr(value, name)
        if item and (made := with_files(item, name_of)) is not item:
            changed[name] = made
    if isinstance(value, (Span, ProgramFact)) and (file := name_of(value.file)) != value.file:
        changed["file"] = file
    return cast(T, dataclasses.replace(cast(Any, value), **changed)) if changed else cast(T, value)


@functools.cache
def _holding(kind: type) -> tuple[str, ...] | None:
    """The fields in which there may be spans: none that is a plain value in every instance. None for what is no dataclass."""
    if not dataclasses.is_dataclass(kind):
        return None
    plain = ("str", "int", "float", "bool")
    return tuple(f.name for f in dataclasses.fields(kind) if str(f.type).removesuffix(" | None") not in plain)


@functools.lru_cache(maxsize=1024)
def absolute_path(path: str, folder: str) -> str:
    return path if path.startswith("<") else os.path.normpath(os.path.join(folder, path))
