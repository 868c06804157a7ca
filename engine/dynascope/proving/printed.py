"""What a program prints, compared word by word: a word that is another one in every run (a time, an address) says nothing.

unsteady = unsteady_words(b"loss 0.25 in 1.3 s", b"loss 0.25 in 1.4 s")      {(0, 3)}
are_alike(b"loss 0.25 in 1.3 s", b"loss 0.25 in 2.0 s", unsteady)            True
"""

from __future__ import annotations

Places = frozenset[tuple[int, int]]
"""Words, by their lines and their numbers there."""


def unsteady_words(first: bytes, second: bytes) -> Places | None:
    """Those in which two runs of one program differ; None where more than words differs."""
    rows, others = _words(first), _words(second)
    if [len(row) for row in rows] != [len(row) for row in others]:
        return None
    return frozenset(
        (line, place)
        for line, (row, other) in enumerate(zip(rows, others, strict=True))
        for place, (word, twin) in enumerate(zip(row, other, strict=True))
        if word != twin
    )


def are_alike(first: bytes, second: bytes, unsteady: Places) -> bool:
    if not unsteady:
        return first == second
    found = unsteady_words(first, second)
    return found is not None and found <= unsteady


def _words(printed: bytes) -> list[list[bytes]]:
    return [line.split() for line in printed.split(b"\n")]
