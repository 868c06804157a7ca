"""The files that a report speaks of.

files_of(report)  ->  {"model.py", "train.py"}
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from dynascope.report.span import Span


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
