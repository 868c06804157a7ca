"""Where the lines of an older text are now.

    old: a b c d      new: a X c d      LineMap: 1 -> 1, 2 -> gone, 3 -> 3, 4 -> 4
    old: a b c        new: a N b c      LineMap: 1 -> 1, 2 -> 3, 3 -> 4

Stateless: computed from the text that was run and the text in the editor, so undoing an edit undoes its effect.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, replace

from dynascope.report.span import Span

from dynascope_server.ide.text_lines import text_lines

DIFFERENCE_LIMIT = 2000
"""Above this many changed lines the changed block is taken as rewritten: a line diff grows with its square."""


@dataclass(frozen=True, slots=True)
class LineMap:
    """`blocks` are (old start, new start, length) of equal runs of lines, from 0; None stands for identical texts."""

    blocks: tuple[tuple[int, int, int], ...] | None = None

    @property
    def changed(self) -> bool:
        return self.blocks is not None

    def line(self, old: int) -> int | None:
        """The present number of line `old` (both from 1); None where that line was edited or removed."""
        if self.blocks is None:
            return old
        for old_start, new_start, length in self.blocks:
            if old_start <= old - 1 < old_start + length:
                return old - old_start + new_start
        return None

    def old_line(self, present: int) -> int | None:
        """The inverse of `line`; None for a line that is new."""
        if self.blocks is None:
            return present
        for old_start, new_start, length in self.blocks:
            if new_start <= present - 1 < new_start + length:
                return present - new_start + old_start
        return None

    def span(self, old: Span) -> Span | None:
        """The span at its present lines; None where one of its lines was edited, removed or parted from the rest."""
        first, last = self.line(old.line), self.line(old.last_line)
        if first is None or last is None or last - first != old.last_line - old.line:
            return None
        if any(self.line(line) is None for line in range(old.line, old.last_line)):
            return None
        return replace(old, line=first, end_line=None if old.end_line is None else last)


def line_map(old: str, new: str) -> LineMap:
    old_lines, new_lines = text_lines(old), text_lines(new)
    return LineMap() if old_lines == new_lines else LineMap(tuple(_equal_blocks(old_lines, new_lines)))


def _equal_blocks(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int, int]]:
    prefix = _common_length(old, new)
    suffix = _common_length(old[prefix:][::-1], new[prefix:][::-1])
    middle_old, middle_new = old[prefix : len(old) - suffix], new[prefix : len(new) - suffix]
    blocks = [(0, 0, prefix)]
    if len(middle_old) + len(middle_new) <= DIFFERENCE_LIMIT:
        matcher = difflib.SequenceMatcher(None, middle_old, middle_new, autojunk=False)
        blocks += [(match.a + prefix, match.b + prefix, match.size) for match in matcher.get_matching_blocks()]
    blocks.append((len(old) - suffix, len(new) - suffix, suffix))
    return [block for block in blocks if block[2]]


def _common_length(left: Sequence[str], right: Sequence[str]) -> int:
    return next((i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right)))
