"""The links of a made document back to the user's lines: on every place that its text names.

"x0 = load(a)  # model.py:12"   ->   columns 16 to 27 lead to model.py, line 12; of a notebook it is "cell 3, line 12"
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from dynascope.report.span import Span

from dynascope_server.ide.cells import CellName
from dynascope_server.ide.documents import Document


@dataclass(frozen=True, slots=True)
class Link:
    line: int
    """From 1."""
    start: int
    end: int
    """Characters of that line, from 0."""
    target: Span


def links(document: Document, cells: Mapping[str, CellName]) -> Iterator[Link]:
    """Of two files of one name, the one meant is that of the nearest line that knows its place."""
    known = defaultdict(list)
    for link in document.links:
        cell = cells.get(link.span.file)
        known[cell.place(link.span.line) if cell is not None else link.span.place].append(link)
    if not known:
        return
    names = "|".join(re.escape(name) for name in sorted(known, key=len, reverse=True))
    pattern = re.compile(rf"(?<!\w)(?:{names})(?!\d)")
    for number, text in enumerate(document.text.split("\n"), 1):
        for match in pattern.finditer(text):
            nearest = min(known[match[0]], key=lambda link: abs(link.line - number))
            yield Link(number, match.start(), match.end(), nearest.span)
