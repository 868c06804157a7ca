"""Places in the client's units. Spans count UTF-8 bytes; a client counts UTF-16 units unless it negotiated otherwise.

line "é = a", bytes 5 to 6   ->   UTF-16 units 4 to 5
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dynascope.report.span import Span

UNITS = {
    "utf-8": lambda text: len(text.encode(errors="surrogatepass")),
    "utf-16": lambda text: len(text.encode("utf-16-le", errors="surrogatepass")) // 2,
    "utf-32": len,
}


@dataclass(frozen=True, slots=True)
class Area:
    """A range as LSP counts: lines from 0, columns in the client's units, the end exclusive."""

    line: int
    column: int
    end_line: int
    end_column: int


def area_of_span(span: Span, lines: Sequence[str], encoding: str) -> Area:
    """A span on the present text; the whole line, without its indentation, where columns are unknown."""
    first, last = span.line - 1, span.last_line - 1
    if span.column is None or not first < len(lines):
        return area_of_line(span.line, lines, encoding)
    start = column_of_bytes(_line(lines, first), span.column, encoding)
    if span.end_column is None:
        return Area(first, start, first, column_of_characters(_line(lines, first), None, encoding))
    return Area(first, start, last, column_of_bytes(_line(lines, last), span.end_column, encoding))


def area_of_line(line: int, lines: Sequence[str], encoding: str) -> Area:
    """Line `line` (from 1) without indentation and trailing blanks."""
    text = _line(lines, line - 1)
    start = len(text) - len(text.lstrip())
    return area_of_characters(line, start, len(text.rstrip()), lines, encoding)


def area_of_characters(line: int, start: int, end: int, lines: Sequence[str], encoding: str) -> Area:
    text = _line(lines, line - 1)
    columns = (column_of_characters(text, column, encoding) for column in (start, max(start, end)))
    return Area(line - 1, next(columns), line - 1, next(columns))


def column_of_bytes(line: str, column: int, encoding: str) -> int:
    """A byte column in the client's units; a column inside a character counts as before it."""
    return UNITS[encoding](line.encode(errors="surrogatepass")[:column].decode(errors="ignore"))


def column_of_characters(line: str, column: int | None, encoding: str) -> int:
    return UNITS[encoding](line[:column])


def _line(lines: Sequence[str], index: int) -> str:
    return lines[index] if 0 <= index < len(lines) else ""
