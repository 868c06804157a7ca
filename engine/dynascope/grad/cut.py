"""Maximum flow and minimum cut of a small network whose nodes are numbers.

    entry = network.add_value(4)         an entry and an exit, `entry + 1`, joined by an edge of capacity 4; None stands for infinite
    network.add_edge(SOURCE, entry)      infinite
    network.cut_near_sink()          ->  the entries of the values whose edge is cut

Among cuts of equal cost the one nearest the sink is taken: it leaves the least to compute again.
"""

from __future__ import annotations

from collections import deque

INFINITE = 1 << 60
SOURCE, SINK = 0, 1


class FlowNetwork:
    """Dinic's algorithm over arrays; edge `e` and its reverse `e ^ 1` lie side by side."""

    def __init__(self) -> None:
        self.edges: list[list[int]] = [[], []]
        self.heads: list[int] = []
        self.capacities: list[int] = []

    def add_value(self, capacity: int | None) -> int:
        entry = len(self.edges)
        self.edges += [], []
        self.add_edge(entry, entry + 1, INFINITE if capacity is None else capacity)
        return entry

    def add_edge(self, start: int, end: int, capacity: int = INFINITE) -> None:
        edge = len(self.heads)
        self.edges[start].append(edge)
        self.edges[end].append(edge + 1)
        self.heads += end, start
        self.capacities += capacity, 0

    def cut_near_sink(self) -> list[int]:
        while (levels := self._levels()) is not None:
            self._saturate(levels)
        after = self._reaching_the_sink()
        return [entry for entry in range(2, len(self.edges), 2) if entry + 1 in after and entry not in after]

    def _levels(self) -> list[int] | None:
        heads, capacities = self.heads, self.capacities
        levels = [-1] * len(self.edges)
        levels[SOURCE] = 0
        queue = deque([SOURCE])
        while queue:
            node = queue.popleft()
            level = levels[node] + 1
            for edge in self.edges[node]:
                if capacities[edge] and levels[head := heads[edge]] < 0:
                    levels[head] = level
                    queue.append(head)
        return levels if levels[SINK] >= 0 else None

    def _saturate(self, levels: list[int]) -> None:
        """Push flow along shortest paths until none is left. Iterative: paths are as long as the program."""
        position = [0] * len(self.edges)
        path: list[int] = []
        node = SOURCE
        while True:
            if node == SINK:
                room = min(self.capacities[edge] for edge in path)
                for edge in path:
                    self.capacities[edge] -= room
                    self.capacities[edge ^ 1] += room
                path, node = [], SOURCE
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

    def _reaching_the_sink(self) -> set[int]:
        """The nodes from which the sink can still be reached."""
        found, pending = {SINK}, [SINK]
        while pending:
            for edge in self.edges[pending.pop()]:
                tail = self.heads[edge]
                if tail not in found and self.capacities[edge ^ 1]:
                    found.add(tail)
                    pending.append(tail)
        return found
