"""Where the lines of a file that was edited are now: the places that the running program's code objects speak of.

Moves("m.py", "a\\nb\\n", "a\\nx\\nb\\n").span(Span("m.py", 2))  ->  Span("m.py", 3)
"""

from __future__ import annotations

import difflib
from dataclasses import replace

from dynascope.report.span import Span


class Moves:
    """A line that was edited counts as where the one before it is."""

    def __init__(self, file: str, old: str, new: str) -> None:
        self.file, self.old, self.new = file, old, new
        before, after = old.splitlines(), new.splitlines()
        start = _common(before, after)
        end = _common(before[start:][::-1], after[start:][::-1])
        matcher = difflib.SequenceMatcher(
            None, before[start : len(before) - end], after[start : len(after) - end], False
        )
        blocks = [(m.a + start, m.b + start, m.size) for m in matcher.get_matching_blocks()]
        self._blocks = [(0, 0, start), *blocks, (len(before) - end, len(after) - end, end)]

    def line(self, old: int) -> int:
        nearest = 1
        for first, now, length in self._blocks:
            if length and first < old:
                nearest = now + min(old - first, length)
        return nearest

    def span(self, old: Span) -> Span:
        first, last = self.line(old.line), self.line(old.last_line)
        return replace(old, line=first, end_line=None if old.end_line is None else last)


def _common(left: list[str], right: list[str]) -> int:
    return next((i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right)))
