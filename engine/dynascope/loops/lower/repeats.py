"""Equal layers of a graph: a run of calls that comes again and again, on other operands.

    h1 = mm(x, w0); x1 = relu(h1); h2 = mm(x1, w1); x2 = relu(h2); ...     ->     Repeats(start, period=2, count=12)

Two calls are the same where they call one operator with equal constants, make results of equal layouts, and their operands are the
same ones, or stand at the same distance, or are inputs of equal layouts that always come together. Of many repetitions the first
and the last few are lowered and fused; what lies between is written from those (`schedule/lengthening.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator
from functools import cached_property
from typing import Any

import torch
from torch import fx

from dynascope.dataclass import dataclass
from dynascope.loops.layouts import ResultLayout, result_layouts
from dynascope.sizes import Size

HEADS, TAILS = 4, 2
"""Repetitions that are compiled at either end. What the beginning does otherwise must not reach the third."""
FEWEST_CALLS_SAVED = 30
PERIODS_TRIED = 6


@dataclass(frozen=True, eq=False)
class Repeats:
    """`calls[start : start + period * count]` of the graph. `next_input` leads from an input of one repetition to that of the next."""

    graph: fx.GraphModule
    calls: tuple[fx.Node, ...]
    start: int
    period: int
    count: int
    next_input: dict[fx.Node, fx.Node]

    @property
    def missing(self) -> int:
        """How many repetitions are left out."""
        return self.count - HEADS - TAILS

    @cached_property
    def stand_ins(self) -> dict[fx.Node, fx.Node]:
        """For each call that is left out, the same of the last repetition before."""
        first = self.start + (HEADS - 1) * self.period
        left_out = range(first + self.period, first + self.period * (1 + self.missing))
        return {self.calls[at]: self.calls[first + (at - first) % self.period] for at in left_out}

    @cached_property
    def places(self) -> dict[str, int]:
        """Of each call by its name, where it stands."""
        return {node.name: at for at, node in enumerate(self.calls)}

    @cached_property
    def returned(self) -> tuple[Any, ...]:
        """The graph's outputs."""
        (values,) = self.graph.graph.output_node().args
        return tuple(values) if isinstance(values, (list, tuple)) else (values,)

    def inputs_read(self, repetitions: range) -> set[fx.Node]:
        """The inputs that are others in each repetition, of those that these read."""
        calls = self.calls[self.start + repetitions.start * self.period : self.start + repetitions.stop * self.period]
        read = {operand for call in calls for operand in call.all_input_nodes if operand.op == "placeholder"}
        return {node for node in read if self.next_input.get(node, node) is not node}

    def repetition_of(self, name: str) -> int | None:
        """The number of the repetition that a call lies in."""
        at = self.places.get(name)
        if at is None or not self.start <= at < self.start + self.period * self.count:
            return None
        return (at - self.start) // self.period

    def later(self, name: str, by: int) -> fx.Node:
        """The same call so many repetitions later."""
        return self.calls[self.places[name] + by * self.period]


def find_repeats(graph: fx.GraphModule) -> Repeats | None:
    """The run that saves the most; None where nothing is worth it."""
    calls = tuple(node for node in graph.graph.nodes if node.op == "call_function")
    if len(calls) < (HEADS + TAILS + 1) * 2 + FEWEST_CALLS_SAVED:
        return None
    numbers: dict[Hashable, int] = {}
    kinds = [numbers.setdefault(_kind(call), len(numbers)) for call in calls]
    found = [run for period in _periods(kinds) for run in _runs(kinds, period)]
    for start, end, period in sorted(found, key=_saved, reverse=True)[:PERIODS_TRIED]:
        repeats = _verified(graph, calls, start, end, period)
        if repeats is not None:
            return repeats
    return None


def _saved(run: tuple[int, int, int]) -> int:
    start, end, period = run
    return ((end - start) // period - HEADS - TAILS) * period


def _kind(call: fx.Node) -> Hashable:
    """All that must be equal of two calls but for their operands. Calls that make sizes are equal to none."""
    if call.meta.get("size") is not None:
        return call
    results = tuple(map(_plain, result_layouts(call)))
    operands = _plain(call.args), _plain(call.kwargs)
    return call.target, operands, results, call.meta.get("device"), call.meta.get("reader")


def _plain(value: Any) -> Hashable:
    """Nested data to be compared by what it is; nodes are all alike here."""
    kind = value.__class__
    if kind is fx.Node:
        return fx.Node
    if kind in _COMPARED:
        return kind, value
    if isinstance(value, (list, tuple)):
        return kind, *map(_plain, value)
    if isinstance(value, dict):
        return tuple((key, _plain(item)) for key, item in value.items())
    if kind is ResultLayout:
        return _plain(value.shape), _plain(value.strides), value.dtype
    if kind is Size:
        return "size", value.expression
    return kind, repr(value)


_COMPARED = frozenset((bool, int, str, type(None), torch.dtype))
"""Floats are not: a zero has a sign."""


def _periods(kinds: list[int]) -> list[int]:
    """Distances at which equal calls often follow one another."""
    last: dict[int, int] = {}
    votes: Counter[int] = Counter()
    for at, kind in enumerate(kinds):
        if kind in last:
            votes[at - last[kind]] += 1
        last[kind] = at
    return [period for period, _ in votes.most_common(PERIODS_TRIED)]


def _runs(kinds: list[int], period: int) -> Iterator[tuple[int, int, int]]:
    """Where each call is of the kind of the one a period later: (start, end, period), long ones only."""
    start = 0
    for at in range(len(kinds) - period + 1):
        if at == len(kinds) - period or kinds[at] != kinds[at + period]:
            if _saved(run := (start, at + period, period)) >= FEWEST_CALLS_SAVED:
                yield run
            start = at + 1


def _verified(graph: fx.GraphModule, calls: tuple[fx.Node, ...], start: int, end: int, period: int) -> Repeats | None:
    """The longest part of a run whose operands correspond too, unless what follows it reads what would be left out."""
    places = {node: at for at, node in enumerate(calls)}
    returned = set(_nodes(graph.graph.output_node().args))
    best, first, inputs = (0, 0, {}), start, {}
    for at in range(start, end - period + 1):
        if at < end - period and _correspond(calls[at], calls[at + period], first, period, places, returned, inputs):
            continue
        if at - first > best[1] - best[0]:
            best = first, at, inputs
        first, inputs = at + 1, {}
    begin, stop, inputs = best
    if _saved((begin, stop + period, period)) < FEWEST_CALLS_SAVED:
        return None
    repeats = Repeats(graph, calls, begin, period, (stop + period - begin) // period, inputs)
    at_start = repeats.inputs_read(range(HEADS))
    if any(at_start.intersection(call.all_input_nodes) for call in calls[begin + period * (HEADS + repeats.missing) :]):
        return None
    after = begin + period * repeats.count
    before_last = after - (TAILS - 1) * period
    for call in calls[after:]:
        if any(operand in places and begin <= places[operand] < before_last for operand in call.all_input_nodes):
            return None
    return repeats


def _correspond(
    one: fx.Node, other: fx.Node, first: int, period: int, places: dict[fx.Node, int], returned: set[fx.Node], inputs: dict
) -> bool:
    """Whether the operands of a call are to it as those of the same call a period later. `inputs` learns which inputs follow which."""
    if (one in returned) != (other in returned):
        return False
    for mine, theirs in zip(_nodes((one.args, one.kwargs)), _nodes((other.args, other.kwargs)), strict=True):
        if mine in places and theirs in places:
            near = places[theirs] - places[mine] == period and places[one] - places[mine] <= period
            if not near and not (mine is theirs and places[mine] < first):
                return False
        elif mine.op != "placeholder" or theirs.op != "placeholder":
            if mine is not theirs:
                return False
        elif inputs.setdefault(mine, theirs) is not theirs or mine is not theirs and not _alike(mine, theirs):
            return False
    return True


def _alike(one: fx.Node, other: fx.Node) -> bool:
    if one.meta.get("size") is not None or one.meta.get("device") != other.meta.get("device"):
        return False
    return _plain(result_layouts(one)) == _plain(result_layouts(other))


def _nodes(value: Any) -> Iterator[fx.Node]:
    """Every node in nested operands, as often as it stands there."""
    if isinstance(value, fx.Node):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _nodes(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _nodes(item)
    elif isinstance(value, slice):
        yield from _nodes((value.start, value.stop, value.step))
