"""What an archive holds: kernels, each of a few parts.

    Entry("processor", "graph-0123456789abcdef01234567", {"so": b"...", "text": b"...", "record": b"..."})

An entry's name is a key (with a word before it), never a path; where its parts go is said by the kind that it is of.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from dynascope.dataclass import dataclass

Kind = Literal["processor", "gpu"]
KINDS: dict[Kind, tuple[str, ...]] = {"processor": ("so", "text", "record"), "gpu": ("cubin", "facts", "text")}
"""The parts of each; all have to be there."""
TITLES: dict[Kind, str] = {"processor": "for the processor", "gpu": "for GPUs"}


@dataclass(frozen=True, slots=True)
class Entry:
    """A kernel, or the shared object of several."""

    kind: Kind
    name: str
    parts: Mapping[str, bytes]

    @property
    def size(self) -> int:
        return sum(map(len, self.parts.values()))


class Refused(NamedTuple):
    """An entry that is left out, and why."""

    name: str
    why: str
    damaged: bool = False
    """It is not what it says it is. Otherwise it is good, elsewhere."""
