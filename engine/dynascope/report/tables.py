"""A table for a terminal: columns side by side where they fit, else each row below its first cell.

    table([("backend", "results"), ("eager", "equal")], 80)      backend   results        eager
                                                                 eager     equal              results: equal
"""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Sequence
from typing import TextIO

from dynascope.report.terminal import columns_of

GAP = "   "


def width_of(stream: TextIO) -> int:
    """Columns of the terminal; 0 of a file or a pipe, which has as many as need be."""
    return columns_of(stream, 0)


def table(rows: Sequence[Sequence[str]], width: int, numbers: Collection[int] = ()) -> list[list[str]]:
    """The lines of each row, the first of which is the head. `numbers` are the columns that end at the right; `width` 0 has no end."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    if not width or sum(widths) + len(GAP) * (len(widths) - 1) <= width:
        return [[_beside(row, widths, numbers)] for row in rows]
    head = rows[0]
    return [[], *([row[0], *(f"  {name}: {cell}" for name, cell in zip(head[1:], row[1:], strict=True) if cell)] for row in rows[1:])]


def wrapped(text: str, width: int) -> list[str]:
    """Words as they are, at most so wide; the lines that follow stand further in."""
    return textwrap.wrap(text, width, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False) if width else [text]


def _beside(row: Sequence[str], widths: Sequence[int], numbers: Collection[int]) -> str:
    cells = (cell.rjust(width) if at in numbers else cell.ljust(width) for at, (cell, width) in enumerate(zip(row, widths, strict=True)))
    return GAP.join(cells).rstrip()
