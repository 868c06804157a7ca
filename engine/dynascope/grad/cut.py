"""Maximum flow and minimum cut of a small network with node names of any kind.

    network.add_edge(a, b, 4)        capacity 4; None stands for infinite
    network.cut_near_sink("source", "sink")   ->  names of the values whose "in" -> "out" edge is cut

Among cuts of equal cost the one nearest the sink is taken: it leaves the least to compute again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable

INFINITE = 1 << 60


class FlowNetwork:
    """Dinic's algorithm over arrays; edge `e` and its reverse `e ^ 1` lie side by side."""

    def __init__(self) -> None:
        self.numbers: dict[Hashable, int] = {}
        self.edges: list[list[int]] = []
        self.heads: list[int] = []
        self.capacities: list[int] = []

    def add_edge(self, start: Hashable, end: Hashable, capacity: int | None) -> None:
        a, b = self._number(start), self._number(end)
        for node, head, room in ((a, b, INFINITE if capacity is None else capacity), (b, a, 0)):
            self.edges[node].append(len(self.heads))
            self.heads.append(head)
            self.capacities.append(room)

    def _number(self, name: Hashable) -> int:
        if name not in self.numbers:
            self.numbers[name] = len(self.edges)
            self.edges.append([])
        return self.numbers[name]

    def cut_near_sink(self, source: Hashable, sink: Hashable) -> list[int]:
        start, end = self._number(source), self._number(sink)
        while (levels := self._levels(start, end)) is not None:
            self._saturate(start, end, levels)
        after = self._reaching(end)
        cut = []
        for name, number in self.numbers.items():
            if (
                isinstance(name, tuple)
                and name[1] == "out"
                and number in after
                and self.numbers[(name[0], "in")] not in after
            ):
                cut.append(name[0])
        return cut

    def _levels(self, start: int, end: int) -> list[int] | None:
        levels = [-1] * len(self.edges)
        levels[start] = 0
        queue = deque([start])
        while queue:
            node = queue.popleft()
            for edge in self.edges[node]:
                head = self.heads[edge]
                if self.capacities[edge] and levels[head] < 0:
                    levels[head] = levels[node] + 1
                    queue.append(head)
        return levels if levels[end] >= 0 else None

    def _saturate(self, start: int, end: int, levels: list[int]) -> None:
        """Push flow along shortest paths until none is left. Iterative: paths are as long as the program."""
        position = [0] * len(self.edges)
        path: list[int] = []
        node = start
        while True:
            if node == end:
                room = min(self.capacities[edge] for edge in path)
                for edge in path:
                    self.capacities[edge] -= room
                    self.capacities[edge ^ 1] += room
                path, node = [], start
                continue
            edge = self._next_edge(node, position, levels)
            if edge is not None:
                path.append(edge)
                node = self.heads[edge]
            elif path:
                node = self.heads[path.pop() ^ 1]
                position[node] += 1
            else:
                return

    def _next_edge(self, node: int, position: list[int], levels: list[int]) -> int | None:
        edges = self.edges[node]
        while position[node] < len(edges):
            edge = edges[position[node]]
            if self.capacities[edge] and levels[self.heads[edge]] == levels[node] + 1:
                return edge
            position[node] += 1
        return None

    def _reaching(self, end: int) -> set[int]:
        """The nodes from which the sink can still be reached."""
        found, pending = {end}, [end]
        while pending:
            for edge in self.edges[pending.pop()]:
                tail = self.heads[edge]
                if tail not in found and self.capacities[edge ^ 1]:
                    found.add(tail)
                    pending.append(tail)
        return found
