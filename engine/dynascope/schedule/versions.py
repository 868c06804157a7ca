"""States of one memory: which buffers are what another was, but for a part, and until when their elements can be read.

    a1 = a, with u written to rows 1:5      ->      a and a1 are one memory, a the older; rows 1:5 of a are there until then

What a loop reads must be read before something else is written there, if both are to be one memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field

from dynascope.dataclass import dataclass
from dynascope.loops.index import ZERO, Index, variable
from dynascope.loops.nodes import Buffer, ExternCall, Load, LoopNode, LoopProgram, Node, Result, ScatterNode, views_in
from dynascope.loops.regions import Region, apart, region, region_of


@dataclass(frozen=True, slots=True)
class Access:
    """That a node reads or writes a part of a buffer. Without a region it may be any part."""

    buffer: str
    region: Region | None
    index: Index | None
    """Over the loops of the node."""
    is_write: bool

    def meets(self, other: Access) -> bool:
        return self.region is None or other.region is None or not apart(self.region, other.region)


@dataclass(frozen=True, slots=True)
class Versions:
    """`memory` leads from a buffer to the first state of its memory, `number` says how many writes made it."""

    buffers: dict[str, Buffer]
    memory: dict[str, str] = field(default_factory=dict)
    number: dict[str, int] = field(default_factory=dict)
    writes: dict[str, list[tuple[int, Access]]] = field(default_factory=dict)
    """By memory, the places of the nodes that write and what they write, in order."""

    def accesses(self, node: Node) -> Iterator[Access]:
        """What a node reads and writes of memory that has several states."""
        if isinstance(node, ExternCall):
            for view in views_in((node.arguments, node.keywords)):
                if view.buffer in self.memory:
                    is_alike = view.dtype == self.buffers[view.buffer].dtype
                    yield Access(view.buffer, region_of(view, self.buffers[view.buffer]) if is_alike else None, None, False)
            return
        for operation in node.body:
            if isinstance(operation, Load) and operation.buffer in self.memory:
                yield self.read(operation.buffer, operation.index)
        if isinstance(node, ScatterNode):
            if node.base in self.memory:
                yield Access(node.base, None, None, False)
            return
        for result in node.results:
            if result.base is not None:
                yield self._write(node, result)

    def read(self, buffer: str, index: Index) -> Access:
        return Access(buffer, region(index, self.buffers[buffer]), index, False)

    def _write(self, node: LoopNode, result: Result) -> Access:
        index = place_of(node, result)
        return Access(result.buffer.name, region(index, self.buffers[result.buffer.name]), index, True)

    def is_older(self, one: str, other: str) -> bool:
        return self.memory[one] == self.memory[other] and self.number[one] < self.number[other]

    def last_moment(self, read: Access) -> tuple[int, Access] | None:
        """The first node that writes over what is read: where, and what."""
        for place, write in self.writes.get(self.memory[read.buffer], ()):
            if self.is_older(read.buffer, write.buffer) and read.meets(write):
                return place, write
        return None


def versions_of(program: LoopProgram) -> Versions:
    found = Versions(program.buffers)
    for place, node in enumerate(program.nodes):
        if not isinstance(node, LoopNode):
            continue
        for result in node.results:
            if result.base is not None:
                note(found, result.buffer.name, result.base)
                found.writes.setdefault(found.memory[result.base], []).append((place, found._write(node, result)))
    return found


def note(versions: Versions, result: str, base: str) -> None:
    """That one buffer is what another was, but for a part."""
    versions.memory.setdefault(base, base)
    versions.number.setdefault(base, 0)
    versions.memory[result], versions.number[result] = versions.memory[base], versions.number[base] + 1


def place_of(node: LoopNode, result: Result) -> Index:
    """Where a node's result lies, over its loops."""
    total = ZERO + result.offset
    for loop, stride in zip(node.loops, result.strides, strict=True):
        total = total + variable(loop.symbol) * stride
    return total
