"""`co_linetable`, written: which source range each code unit comes from (PEP 657; CPython's Objects/locations.md).

    [(Position(3, 3, 4, 9), 2 units), (None, 1 unit)], first line 1  ->  bytes

An entry is a byte 1·kind(4)·(units - 1)(3), then the range in the shortest form that can say it. It covers at most 8
units; longer runs repeat it.
"""

from __future__ import annotations

from collections.abc import Iterable

from dynascope.frame.instructions import Position

UNITS_OF_ENTRY = 8
ONE_LINE, NO_COLUMNS, LONG, NO_LOCATION = 10, 13, 14, 15


def write_line_table(runs: Iterable[tuple[Position | None, int]], first_line: int) -> bytes:
    """`runs` are positions with the number of code units that have them, in order."""
    table = bytearray()
    line = first_line
    for position, units in runs:
        while units > 0:
            covered = min(units, UNITS_OF_ENTRY)
            units -= covered
            if position is None:
                table.append(0x80 | NO_LOCATION << 3 | covered - 1)
                continue
            _write_entry(table, position, covered, position[0] - line)
            line = position[0]
    return bytes(table)


def _write_entry(table: bytearray, position: Position, units: int, line_delta: int) -> None:
    line, end_line, column, end_column = position
    if end_line is None or (column is None and end_line == line):
        table.append(0x80 | NO_COLUMNS << 3 | units - 1)
        _write_signed(table, line_delta)
        return
    has_columns = column is not None and end_column is not None
    if has_columns and end_line == line:
        width = end_column - column
        if line_delta == 0 and column < 80 and 0 <= width < 16:
            table.append(0x80 | (column >> 3) << 3 | units - 1)
            table.append((column & 7) << 4 | width)
            return
        if 0 <= line_delta < 3 and column < 128 and end_column < 128:
            table += bytes((0x80 | (ONE_LINE + line_delta) << 3 | units - 1, column, end_column))
            return
    table.append(0x80 | LONG << 3 | units - 1)
    _write_signed(table, line_delta)
    _write_number(table, end_line - line)
    _write_number(table, 0 if column is None else column + 1)
    _write_number(table, 0 if end_column is None else end_column + 1)


def _write_number(table: bytearray, number: int) -> None:
    """Groups of 6 bits, low group first, bit 6 says that more follow."""
    while number >= 64:
        table.append(0x40 | number & 0x3F)
        number >>= 6
    table.append(number)


def _write_signed(table: bytearray, number: int) -> None:
    _write_number(table, (-number << 1 | 1) if number < 0 else number << 1)
