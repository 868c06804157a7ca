"""Which loops that write parts of one memory, or read there, may be one kernel, and which have to run before which.

    a1 = a, with column 3 written; a2 = a1, with column 4; y = a[:, 5] + a2[:, 4]      ->      one kernel: no element is in two of these
    x = a[1:] * 2; a1 = a, with its first rows written                                  ->      x first
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from dynascope.dataclass import dataclass
from dynascope.loops.index import Index
from dynascope.loops.nodes import LoopNode, LoopProgram, Node, views_in
from dynascope.schedule.versions import Access, versions_of


@dataclass(slots=True, eq=False)
class _Entry:
    """What a unit reads or writes there."""

    unit: Any
    node: Node
    access: Access


class PartialUnits:
    """By memory that is written in parts, what the units so far do there."""

    def __init__(self, program: LoopProgram) -> None:
        self.versions = versions_of(program)
        self.entries: dict[str, list[_Entry]] = {}
        self.returned = {view.buffer for view in views_in(program.outputs)}
        bases = [base for node in program.nodes if isinstance(node, LoopNode) for base in node.bases]
        self.forked = {base for base in bases if bases.count(base) > 1} | self.returned.intersection(bases) if bases else set()
        """States that are needed beside the next: this is a copy, which takes a step between."""

    def note(self, unit: Any, node: Node) -> None:
        if self.versions.memory:
            for access in self.versions.accesses(node):
                self.entries.setdefault(self._memory(access), []).append(_Entry(unit, node, access))

    def merge(self, unit: Any, other: Any) -> None:
        """All that the other did, the unit does."""
        for entries in self.entries.values():
            for entry in entries:
                if entry.unit is other:
                    entry.unit = unit

    def before(self, node: Node) -> Iterator[Any]:
        """The units that read, or wrote, what the node writes over."""
        for access in self._accesses(node):
            if access.is_write:
                for entry in self.entries.get(self._memory(access), ()):
                    if self.versions.is_older(entry.access.buffer, access.buffer) and entry.access.meets(access):
                        yield entry.unit

    def share_memory(self, unit: Any, other: Any) -> bool:
        """Whether both touch one memory that is written in parts."""
        touched = [{memory for memory, entries in self.entries.items() if any(e.unit is each for e in entries)} for each in (unit, other)]
        return not touched[0].isdisjoint(touched[1])

    def go_together(
        self, unit: Any, node: LoopNode, own: Callable[[Index], Index], there: Callable[[Node, Index], Index], reduces: bool
    ) -> bool:
        """Whether a node may be a member of a unit. `own` and `there` say where an index of it, and of a member, is in the common loops."""
        accesses = list(self._accesses(node))
        entries = (entry for each in self.entries.values() for entry in each if entry.unit is unit)
        made = {entry.access.buffer for entry in entries if entry.access.is_write}
        if any(access.is_write for access in accesses) and made.intersection(node.bases) & self.forked:
            return False
        if reduces and any(self._meet(one, other) for one in accesses for other in accesses if one.is_write):
            return False
        for access in accesses:
            for entry in self.entries.get(self._memory(access), ()):
                if entry.unit is unit and self._meet(entry.access, access) and not self._is_own(entry, access, own, there, reduces):
                    return False
        return True

    def _meet(self, one: Access, other: Access) -> bool:
        """Whether they may be of one element, and at least one writes it."""
        return one is not other and (one.is_write or other.is_write) and one.buffer in self.versions.memory and one.meets(other)

    def _is_own(
        self, entry: _Entry, access: Access, own: Callable[[Index], Index], there: Callable[[Node, Index], Index], reduces: bool
    ) -> bool:
        """Whether each iteration does the one, and then the other, to an element of its own."""
        first = entry.access
        if first.index is None or access.index is None or there(entry.node, first.index) != own(access.index):
            return False
        if access.is_write:
            return not (reduces and not first.is_write)
        return first.buffer == access.buffer  # the value that was written is at hand

    def _accesses(self, node: Node) -> Iterator[Access]:
        return self.versions.accesses(node) if self.versions.memory else iter(())

    def _memory(self, access: Access) -> str:
        return self.versions.memory[access.buffer]
