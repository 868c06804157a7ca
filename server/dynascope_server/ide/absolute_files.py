"""Every span of a report as an absolute path."""

from __future__ import annotations

import dataclasses
import os
from typing import TypeVar, cast

from dynascope.report.facts import ProgramFact
from dynascope.report.span import Span

T = TypeVar("T")


def absolute(value: T, folder: str) -> T:
    """The same report with each relative file name resolved against the folder the program ran in."""
    if isinstance(value, (Span, ProgramFact)):
        value = dataclasses.replace(value, file=absolute_path(value.file, folder))
    if isinstance(value, tuple):
        return cast(T, tuple(absolute(item, folder) for item in value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = ((field.name, getattr(value, field.name)) for field in dataclasses.fields(value))
        held = {name: item for name, item in fields if isinstance(item, tuple) or dataclasses.is_dataclass(item)}
        return dataclasses.replace(value, **{name: absolute(item, folder) for name, item in held.items()})
    return value


def absolute_path(path: str, folder: str) -> str:
    return path if path.startswith("<") else os.path.normpath(os.path.join(folder, path))
