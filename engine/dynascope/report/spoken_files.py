"""The files that a report speaks of.

files_of(report)                  ->  {"model.py", "train.py"}
with_files(report, name_of)       ->  the report with other names: absolute paths, cells of a notebook
"""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections.abc import Callable, Iterator
from typing import Any, TypeVar, cast

from dynascope.report.facts import FileLines, ProgramFact
from dynascope.report.span import Span

T = TypeVar("T")


def files_of(value: Any) -> set[str]:
    """Of every place in a report, or in a part of one."""
    return {span.file for span in _spans(value)}


def _spans(value: Any) -> Iterator[Span]:
    if isinstance(value, Span):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from _spans(item)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for each in dataclasses.fields(value):
            yield from _spans(getattr(value, each.name))


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
    if isinstance(value, (Span, ProgramFact, FileLines)) and (file := name_of(value.file)) != value.file:
        changed["file"] = file
    return cast(T, dataclasses.replace(cast(Any, value), **changed)) if changed else cast(T, value)


@functools.cache
def _holding(kind: type) -> tuple[str, ...] | None:
    """The fields in which there may be spans: none that is a plain value in every instance. None for what is no dataclass."""
    if not dataclasses.is_dataclass(kind):
        return None
    plain = ("str", "int", "float", "bool")
    return tuple(f.name for f in dataclasses.fields(kind) if str(f.type).removesuffix(" | None") not in plain)
