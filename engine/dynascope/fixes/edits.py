"""Changes of a text, in the columns that Python's grammar uses.

apply("x = y.item()\n", [Edit(1, 4, 1, 12, "y")])  ->  "x = y\n"
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher

from dynascope.dataclass import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Edit:
    """Lines count from 1, columns are UTF-8 bytes from 0, the end is not included; an empty range inserts."""

    line: int
    column: int
    end_line: int
    end_column: int
    text: str

    @property
    def start(self) -> tuple[int, int]:
        return self.line, self.column

    @property
    def end(self) -> tuple[int, int]:
        return self.end_line, self.end_column


def apply(text: str, edits: Iterable[Edit]) -> str:
    """The text with all edits made, the same one once. Raises `ValueError` where two change the same place."""
    ordered = sorted(set(edits))
    if not are_apart(ordered):
        raise ValueError("two edits change the same place")
    lines = text.encode().splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    raw = b"".join(lines)
    for edit in reversed(ordered):
        first, last = (starts[row - 1] + column for row, column in (edit.start, edit.end))
        raw = raw[:first] + edit.text.encode() + raw[last:]
    return raw.decode()


def by_lines(before: str, after: str) -> tuple[Edit, ...]:
    """What turns one text into the other, by whole lines."""
    rows = before.splitlines(keepends=True), after.splitlines(keepends=True)
    return tuple(
        Edit(first + 1, 0, last + 1, 0, "".join(rows[1][start:end]))
        for what, first, last, start, end in SequenceMatcher(None, *rows, autojunk=False).get_opcodes()
        if what != "equal"
    )


def are_apart(edits: Iterable[Edit]) -> bool:
    """Whether they can be made together. What two of them share is made once."""
    ordered: Sequence[Edit] = sorted(set(edits))
    return all(
        before.end <= after.start and before.start != after.start
        for before, after in zip(ordered, ordered[1:], strict=False)
    )


def line_before(before: str, after: str, line: int) -> int:
    """The line of the earlier text that a line of the later one is, or was made from. Both count from 1."""
    rows = before.splitlines(), after.splitlines()
    for what, first, last, start, end in SequenceMatcher(None, *rows, autojunk=False).get_opcodes():
        if start < line <= end:
            return first + line - start if what == "equal" else min(first + line - start, max(last, first + 1))
    return line
