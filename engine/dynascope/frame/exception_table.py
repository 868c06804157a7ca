"""`co_exceptiontable`, read and written: which code range goes to which handler with how much of the stack.

    bytes  <->  [ExceptionEntry(start=4, end=20, target=36, depth=1, push_lasti=True), ...]

The format is CPython's (Objects/exception_handling_notes.txt): per entry four numbers in code units (start, length,
target, depth * 2 + lasti), each in groups of 6 bits, high group first, bit 6 "more follows", bit 7 "an entry starts".
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class ExceptionEntry(NamedTuple):
    """Offsets in bytes, `end` exclusive."""

    start: int
    end: int
    target: int
    depth: int
    push_lasti: bool


def parse_exception_table(table: bytes) -> list[ExceptionEntry]:
    """The entries, in the table's order, which is by `start`."""
    numbers: list[int] = []
    number = 0
    for byte in table:
        number = number << 6 | byte & 0x3F
        if not byte & 0x40:
            numbers.append(number)
            number = 0
    return [
        ExceptionEntry(2 * start, 2 * (start + length), 2 * target, depth >> 1, bool(depth & 1))
        for start, length, target, depth in zip(*[iter(numbers)] * 4, strict=True)
    ]


def write_exception_table(entries: Iterable[ExceptionEntry]) -> bytes:
    table = bytearray()
    for entry in entries:
        first = len(table)
        _write_number(table, entry.start // 2)
        _write_number(table, (entry.end - entry.start) // 2)
        _write_number(table, entry.target // 2)
        _write_number(table, entry.depth << 1 | entry.push_lasti)
        table[first] |= 0x80
    return bytes(table)


def _write_number(table: bytearray, number: int) -> None:
    groups = [number & 0x3F]
    while number := number >> 6:
        groups.append(number & 0x3F | 0x40)
    table += bytes(reversed(groups))
