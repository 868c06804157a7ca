"""Counts and sizes in words: `1 break`, `3 kernels`, `2.0 KiB`."""

from __future__ import annotations

UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def size(number_of_bytes: int) -> str:
    amount, unit = float(number_of_bytes), 0
    while amount >= 1024 and unit < len(UNITS) - 1:
        amount, unit = amount / 1024, unit + 1
    return f"{amount:.1f} {UNITS[unit]}" if unit else f"{number_of_bytes} B"
