"""Writes into parts of one tensor, one after another: which of a graph's scatters become writes of a part alone.

    a1 = slice_scatter(a, u, 0, 1, 5); a2 = select_scatter(a1, v, 1, 3)
        ->  both: the loops go over u and over v, and each leaves what it makes in what holds a by then

Graphs know no writes: each is a new tensor, the old elements but for some. Where nobody sees the old tensor afterwards, its memory is
that of the new one (`schedule/shared_memory.py`). A single write to what kernels make is left to these: it is one pass together with them.

    slices = slice(a, 0, 1, 5); s1 = select_scatter(slices, v, 1, 3); a1 = slice_scatter(a, s1, 0, 1, 5)

is one write too: of `v` in a part of a part.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch
from torch import fx

from dynascope.dataclass import dataclass
from dynascope.loops.lower.repeats import Repeats
from dynascope.loops.lower.views import is_view

aten = torch.ops.aten
SCATTERS = frozenset([aten.slice_scatter.default, aten.select_scatter.default])
UNWRITTEN = frozenset(
    overload
    for packet in (aten.empty, aten.empty_like, aten.new_empty, aten.empty_strided, aten.new_empty_strided, aten.empty_permuted)
    for overload in (getattr(packet, name) for name in packet.overloads())
)
"""What makes memory that holds nothing yet: all of it is to be written, by whoever writes its parts."""
ENDLESS = 1 << 60
FEWEST_OF_A_COPY = 3
"""Writes that are worth a copy of an input that does not change: so many passes it would be otherwise."""


def parts_written(graph: fx.GraphModule, changed: Iterable[fx.Node] = ()) -> frozenset[fx.Node]:
    """The scatters that write parts alone. `changed` are the inputs that the program changes."""
    nodes = list(graph.graph.nodes)
    if not any(node.target in SCATTERS for node in nodes):
        return frozenset()
    search = _Search({node: place for place, node in enumerate(nodes)}, frozenset(changed))
    for node in nodes:
        if node.op == "call_function" and node.target in SCATTERS:
            search.add(node)
    return frozenset(search.found())


def lie_in_layers(parts: Iterable[fx.Node], repeats: Repeats) -> bool:
    """Whether the writes to one tensor lie within the length of one layer, wherever a repetition begins in it: writes that go through
    layers say of one nothing about the next."""
    for node in parts:
        first = node
        while (holder := _holder(first)).target in SCATTERS:
            first = holder
        is_one_layer = repeats.places[node.name] - repeats.places[first.name] < repeats.period
        if not is_one_layer or (repeats.repetition_of(first.name) is None) != (repeats.repetition_of(node.name) is None):
            return False
    return True


@dataclass(slots=True, eq=False)
class _Version:
    """One state of a memory: `nodes` are the tensors that show it, views apart."""

    nodes: tuple[fx.Node, ...]
    before: _Version | None = None
    is_by_steps: bool = False

    @property
    def line(self) -> list[_Version]:
        """This state and all before it, the first last."""
        line = [self]
        while line[-1].before is not None:
            line.append(line[-1].before)
        return line


class _Search:
    def __init__(self, places: dict[fx.Node, int], changed: frozenset[fx.Node]) -> None:
        self.places, self.changed = places, changed
        self.versions: dict[fx.Node, _Version] = {}

    def add(self, node: fx.Node) -> None:
        if node in self.versions:
            return
        holder = _holder(node)
        version = self.versions.get(holder) or self.versions.setdefault(holder, _Version((holder,)))
        chain = tuple(self._chain(node, version))
        later = (user for one in version.nodes for user in _readers(one) if self.places[user] > self.places[node])
        if not all(user in chain or _takes_in(user, version) for user in later):
            return
        new = _Version(chain, version, is_by_steps=any(_step(each) != 1 for each in chain))
        self.versions |= dict.fromkeys(chain, new)

    def _chain(self, node: fx.Node, version: _Version) -> Iterator[fx.Node]:
        """The scatter, and those that put its result into what its first operand was cut out of."""
        yield node
        for user in node.users:
            if user.target in SCATTERS and user.args[1] is node and user.args[0] is not node:
                within = self.versions.get(_holder(user))
                if within is not None and within in version.line:
                    yield from self._chain(user, version)

    def found(self) -> Iterator[fx.Node]:
        lines: dict[_Version, list[_Version]] = {}
        for version in dict.fromkeys(self.versions.values()):
            if version.before is not None:
                lines.setdefault(version.line[-1], []).append(version)
        for first, writes in lines.items():
            if self._pays(first.nodes[0], writes):
                for write in writes:
                    yield from write.nodes

    def _pays(self, start: fx.Node, writes: list[_Version]) -> bool:
        if start.target in UNWRITTEN:
            return True
        if start.op == "call_function":
            return len(writes) > 1
        if start in self.changed:
            return len(writes) > 1 or writes[0].is_by_steps
        return len(writes) >= FEWEST_OF_A_COPY


def _holder(node: fx.Node) -> fx.Node:
    """What the scatter's first operand is a view of, through views only."""
    node = node.args[0]  # type: ignore[assignment]
    while node.op == "call_function" and is_view(node.target) and isinstance(node.args[0], fx.Node):
        node = node.args[0]
    return node


def _takes_in(user: fx.Node, version: _Version) -> bool:
    """Whether a scatter puts what a part of a state became into that state: it is the later state itself."""
    if user.target not in SCATTERS:
        return False
    source = user.args[1]
    while isinstance(source, fx.Node) and source.target in SCATTERS:
        source = _holder(source)
        if source in version.nodes:
            return True
    return False


def _readers(node: fx.Node) -> Iterator[fx.Node]:
    """Who reads a tensor or a view of it."""
    for user in node.users:
        if is_view(user.target) and user.args and user.args[0] is node:
            yield from _readers(user)
        else:
            yield user


def _step(node: fx.Node) -> object:
    if node.target is not aten.slice_scatter.default:
        return 1
    return node.args[5] if len(node.args) > 5 else node.kwargs.get("step", 1)
