"""Results of one graph whose histories are not one: where the graph is cut so that autograd sees it.

    h = encoder(x); y = head(h); return h, y        part 0: h of x        part 1: y of h

A region is one node of autograd's, whose results are siblings: `autograd.grad(y, h)`, `h.retain_grad()` and a hook on `h` would find no
way from `y` to `h`. So what others are computed from is the last thing that a part computes, and each part has a node of its own.

    return f(u), g(v)        of u and v with histories from before: a backward pass of the one would enter, and free, that of the other

So operations that lead to other histories are other parts. What leads where is read off the histories that the capture's meta
tensors have.

    h = encoder(x); y = head(h); g = gradients(y, w, retain); return h, y, g      part 0: h     part 1: y     then autograd's own pass

Where gradients are taken inside after such a place, autograd takes them, through the nodes of the parts.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any

import torch
from torch import fx

from dynascope.autograd_functions import gradients
from dynascope.capture.histories import function_of, functions_of, storage_of
from dynascope.dataclass import dataclass
from dynascope.graph_parts import Part, is_computed_number, is_ordered, results_of, run_apart, runs_apart

ACCUMULATES = "AccumulateGrad"
"""Autograd's function at the end of a history."""
Had = tuple[fx.Node, torch.Tensor, int]
"""What the program has when the graph has run, with its example and the place where it was last written."""


@dataclass(frozen=True)
class Origins:
    """Where the histories of a graph begin that is a part of another one."""

    inputs: frozenset[int] = frozenset()
    """The identities of the examples that the whole graph is given."""
    functions: Mapping[Any, Hashable] = field(default_factory=dict)
    """For autograd's function of each tensor that comes from an earlier part: which node of autograd's it will come from."""


def parts_by_histories(
    graph: fx.GraphModule, shown: Collection[fx.Node], others: Collection[int] = (), origins: Origins | None = None
) -> dict[fx.Node, int]:
    """The part that each operation belongs to; empty where one is enough. `shown` are what the program gets, `others` places in the
    order of the nodes after which another part begins besides. With `origins` what later parts get counts too: a pass that comes
    through one of them enters what it comes from."""
    nodes = list(graph.graph.nodes)
    inside = [node for node in nodes if node.target is gradients]
    apart = inside if _first_cut(nodes, shown) is not None else []
    for node in apart:
        run_apart(node)
    had = _had(nodes, {*shown, *_differentiated(apart)})
    after = {at for at, node in enumerate(nodes) if node in apart or ("apart" in node.meta and node.target is not operator.getitem)}
    borders = sorted({*_borders(nodes, had), *others, *after})
    origins = Origins(given_to(nodes)) if origins is None else origins
    befores = _Befores(origins)
    differ = len({befores.of(example) for _, example, _ in _had(nodes, {*shown, *results_of(graph)})}) > 1
    through = _Befores(origins, _functions_read(had))
    if _differ_between_borders(borders, had, through):
        befores, differ = through, True
    if not borders and not differ:
        return {}
    # Gradients that are taken inside follow histories that this would cut: what comes after them is told apart.
    followed = inside if not apart else []
    told_apart_from = nodes.index(followed[-1]) if followed else 0
    levels = _levels(nodes, borders, befores if differ else None, told_apart_from)
    for node, level in levels.items():
        node.meta["level"] = level
    return levels if len(set(levels.values())) > 1 or any(map(runs_apart, levels)) else {}


def ends_of_parts(graph: fx.GraphModule, shown: Collection[fx.Node]) -> frozenset[fx.Node]:
    """Of a graph that is cut at what only its run knows: the operations behind which a part ends besides, because results that the
    program has, or gradients inside are taken of, are computed from others."""
    nodes = list(graph.graph.nodes)
    inside = _differentiated(node for node in nodes if node.target is gradients)
    return frozenset(nodes[border] for border in _borders(nodes, _had(nodes, {*shown, *inside})))


def _differentiated(taken: Iterable[fx.Node]) -> Iterator[fx.Node]:
    """What gradients that are taken inside begin and end with."""
    return (end for node in taken for end in node.all_input_nodes)


def _had(nodes: Sequence[fx.Node], shown: Collection[fx.Node]) -> list[Had]:
    """Of results, and of inputs that are written, those that autograd knows the way to."""
    places = {node: at for at, node in enumerate(nodes)}
    written: dict[Any, int] = {}
    for node in nodes:
        for each in node.meta.get("writes", ()):
            written[storage_of(each)] = places[node]
    had: dict[int, Had] = {}
    for node in nodes:
        is_written_input = node.op == "placeholder" and storage_of(node) in written
        if not is_written_input and (node.op == "placeholder" or node not in shown):
            continue
        example = node.meta.get("example_value")
        if isinstance(example, torch.Tensor) and example.requires_grad and function_of(example) is not None:
            had.setdefault(id(example), (node, example, max(places[node], written.get(storage_of(node), 0))))
    return list(had.values())


def _borders(nodes: Sequence[fx.Node], had: Sequence[Had]) -> list[int]:
    """The places in the order of the nodes after which another part begins: there others are computed from what was computed."""
    return sorted({min(end, last - 1) for _, end, last in _computed_from_others(had) if last > 0})


def _functions_read(had: Sequence[Had]) -> frozenset[Any]:
    """Autograd's functions of those that others are computed from."""
    return frozenset(function_of(example) for example, _, _ in _computed_from_others(had))


def _computed_from_others(had: Sequence[Had]) -> Iterator[tuple[torch.Tensor, int, int]]:
    """Of each that another one is computed from its example and place, and the place of the other."""
    reached = {node: set(functions_of([example])) - {function_of(example)} for node, example, _ in had}
    for _, example, end in had:
        for other, derived, last in had:
            if function_of(example) in reached[other] and derived._base is not example:
                yield example, end, last


def _differ_between_borders(borders: Sequence[int], had: Iterable[Had], through: _Befores) -> bool:
    """Whether of two between the same borders one is computed from a result of an earlier part and the other is not: a pass of the other
    would enter that part."""
    met: dict[int, frozenset[Any]] = {}
    for _, example, last in had:
        found = through.of(example)
        if met.setdefault(sum(border < last for border in borders), found) != found:
            return True
    return False


def without_a_way(graph: fx.GraphModule, shown: Collection[fx.Node]) -> fx.Node | None:
    """The first node after which a part should begin, and cannot: gradients that are differentiated again lead to what eager saved
    of a result by way of the result, and in parts past it (`grad/second_derivative.py`)."""
    nodes = list(graph.graph.nodes)
    has_second = any(node.target is gradients and node.args[-1] for node in nodes)
    return _first_cut(nodes, shown) if has_second else None


def _first_cut(nodes: Sequence[fx.Node], shown: Collection[fx.Node]) -> fx.Node | None:
    """The first node at the end of a part after which gradients are taken, which then are not in one part with all they follow."""
    last = max((at for at, node in enumerate(nodes) if node.target is gradients), default=None)
    if last is None:
        return None
    return next((nodes[border] for border in _borders(nodes, _had(nodes, shown)) if border < last), None)


def given_to(nodes: Iterable[fx.Node]) -> frozenset[int]:
    """The identities of the examples of a graph's inputs."""
    return frozenset(id(node.meta.get("example_value")) for node in nodes if node.op == "placeholder")


def with_results_of(part: Part, origins: Origins) -> Origins:
    """For the parts that come after a part. What one level of its kernels gives is of one node; operators have one each."""
    functions = dict(origins.functions)
    for node in part.outputs:
        for example in _given_by(node):
            if (function := function_of(example)) is not None:
                level = (id(part), part.copies[node].meta.get("level"))
                functions[function] = level if part.compiled is not None else function
    return Origins(origins.inputs, functions)


class _Befores:
    """The histories from before that tensors lead to: of the graph the leaves that stand for them and are no inputs themselves, of a
    part its origins, and those of autograd's functions that are in `ends`."""

    def __init__(self, origins: Origins, ends: frozenset[Any] = frozenset()) -> None:
        self.ends = {**origins.functions, **{function: function for function in ends}}
        self.inputs = origins.inputs
        self.known: dict[Any, frozenset[Any]] = {}

    def of(self, example: torch.Tensor) -> frozenset[Any]:
        function = function_of(example)
        if function is None:
            return frozenset()
        pending = [function]
        while pending:
            node = pending[-1]
            following = [each for each, _ in node.next_functions if each is not None]
            unknown = [each for each in following if each not in self.known]
            if unknown and node not in self.known:
                pending += unknown
                continue
            leaf = node.variable if type(node).__name__ == ACCUMULATES else None
            own = frozenset() if leaf is None or id(leaf) in self.inputs else frozenset({id(leaf)})
            ends = [self.ends[each] for each in following if each in self.ends]
            self.known[node] = own.union(ends, *(self.known[each] for each in following))
            pending.pop()
        return self.known[function]


def _levels(nodes: Sequence[fx.Node], borders: Sequence[int], befores: _Befores | None, told_apart_from: int) -> dict[fx.Node, int]:
    """Each operation as early as it can, among those that lead where it leads, from a place on; one after the other where something
    is written or drawn. What takes one result of several belongs to the operation that gives them, what has no history to what it is
    computed from."""
    keeps_order = any(map(is_ordered, nodes))
    levels: dict[fx.Node, int] = {}
    kinds: list[tuple[int, frozenset[Any]]] = []
    latest = 0
    for at, node in enumerate(nodes):
        if node.op in ("placeholder", "output") or is_computed_number(node):
            continue
        if node.target is operator.getitem and not isinstance(node.all_input_nodes[0].meta.get("example_value"), torch.Tensor):
            levels[node] = levels.get(node.all_input_nodes[0], latest)
            continue
        step = sum(border < at for border in borders)
        earliest = max((levels[each] for each in node.all_input_nodes if each in levels), default=0)
        earliest = max(earliest, latest if keeps_order else 0, sum(kind[0] < step for kind in kinds))
        examples = _given_by(node)
        kind = step, frozenset() if befores is None or at < told_apart_from else frozenset().union(*map(befores.of, examples))
        has_history = any(function_of(example) is not None for example in examples)
        fitting = [
            level for level in range(earliest, len(kinds)) if kinds[level] == kind or (not has_history and kinds[level][0] == step)
        ]
        if not fitting:
            fitting = [len(kinds)]
            kinds.append(kind)
        levels[node] = fitting[0]
        latest = max(latest, fitting[0])
    return levels


def _given_by(node: fx.Node) -> list[torch.Tensor]:
    """The tensors that an operation gives."""
    items = (user for user in node.users if user.target is operator.getitem and user.args[0] is node)
    examples = (each.meta.get("example_value") for each in (node, *items))
    return [example for example in examples if isinstance(example, torch.Tensor)]
