"""The links of a made document back to the user's lines.

"x0 = load(a)  # model.py:12"   ->   columns 16 to 27 lead to model.py, line 12
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dynascope.report.span import Span

from dynascope_server.ide.documents import Document
from dynascope_server.ide.summary import place_name


@dataclass(frozen=True, slots=True)
class Link:
    line: int
    """From 1."""
    start: int
    end: int
    """Characters of that line, from 0."""
    target: Span


def links(document: Document) -> Iterator[Link]:
    """One link for each line that knows its place: on the name of the place, else on the whole line."""
    lines = document.text.split("\n")
    for line_link in document.links:
        if not 1 <= line_link.line <= len(lines):
            continue
        text = lines[line_link.line - 1]
        start, end = _range(text, place_name(line_link.span))
        if start < end:
            yield Link(line_link.line, start, end, line_link.span)


def _range(text: str, name: str) -> tuple[int, int]:
    start = text.rfind(name)
    if start >= 0:
        return start, start + len(name)
    return len(text) - len(text.lstrip()), len(text.rstrip())
