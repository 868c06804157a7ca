"""ATen graphs whose sizes vary, for programs written with concrete tensors: what the front end hands to the back end.

    graph, scope = symbolic_graph(lambda x, n: x[:n].sum(1), [tensor("s0", 64), number("n")], {"s0": 7, "n": 3})

The program is recorded at several values of its roots; each size, stride and number of the graph is the expression that fits
all of them. Every root is a placeholder of its own, numbers are nodes with `meta["size"]`, tensors have `meta["layout"]`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import torch
from dynascope.sizes import Scope, Size, evaluate, is_size
from recording import record
from torch import fx

SAMPLES = (12, 17, 21, 26, 31, 38, 45, 53)
"""Values of the roots at which a program is recorded: odd and even, and long enough for what is cut off."""


@dataclass(frozen=True)
class TensorInput:
    """A tensor to be: dimensions are names of roots, ints, or texts over roots. `build` makes it of plain contiguous memory."""

    dimensions: tuple[int | str, ...]
    dtype: torch.dtype = torch.float32
    build: Callable[[torch.Tensor], torch.Tensor] = lambda x: x
    below: int | str = 0
    """For integers: values are in 0 to this."""

    def make(self, values: dict[str, Any], seed: int = 0) -> torch.Tensor:
        sizes = [d if isinstance(d, int) else eval(d, {}, dict(values)) for d in self.dimensions]
        generator = torch.Generator().manual_seed(seed)
        if self.dtype.is_floating_point:
            return self.build(torch.randn(sizes, generator=generator).to(self.dtype))
        below = self.below if isinstance(self.below, int) else eval(self.below, {}, dict(values))
        return self.build(torch.randint(0, below or 2, sizes, generator=generator).to(self.dtype))


@dataclass(frozen=True)
class NumberInput:
    """A Python number of the program's."""

    name: str


def tensor(*dimensions: int | str, **options: Any) -> TensorInput:
    return TensorInput(dimensions, **options)


def number(name: str) -> NumberInput:
    return NumberInput(name)


def make_inputs(inputs: list[Any], values: dict[str, Any]) -> list[Any]:
    return [i.make(values, k) if isinstance(i, TensorInput) else values[i.name] for k, i in enumerate(inputs)]


@dataclass(frozen=True)
class Layout:
    sizes: tuple[Any, ...]
    strides: tuple[Any, ...]
    dtype: torch.dtype
    device: torch.device


@dataclass(frozen=True)
class SymbolicGraph:
    """`roots` in the order of their placeholders, which come first."""

    module: fx.GraphModule
    scope: Scope
    roots: tuple[str, ...]
    inputs: list[Any]

    def arguments(self, values: dict[str, Any]) -> list[Any]:
        tensors = [i for i in make_inputs(self.inputs, values) if isinstance(i, torch.Tensor)]
        return [*(values[root] for root in self.roots), *tensors]

    def relations(self) -> list[str]:
        return [str(relation) for relation, _ in self.scope.log]

    def admits(self, values: dict[str, Any]) -> bool:
        return all(relation.is_true(values) for relation, _ in self.scope.log)

    def fixed(self) -> list[str]:
        """Relations that fix a number to one value."""
        return [str(r) for r, _ in self.scope.log if r.operator in ("==", "is") and not r.holds_not]


def symbolic_graph(
    function: Callable[..., Any], inputs: list[Any], hints: dict[str, Any], features: tuple[str, ...] = ()
) -> SymbolicGraph:
    """`features` are texts over roots that sizes may be made of, besides sums of products of roots (`s0 // 2`)."""
    scope = Scope()
    numbers = {i.name for i in inputs if isinstance(i, NumberInput)}
    roots = {name: scope.root(name, hint, *(() if name in numbers else (2,))) for name, hint in hints.items()}
    points = _points(hints)
    recorded = [record(function, make_inputs(inputs, values)) for values in [hints, *points]]
    fit = _Fitter(roots, hints, points, features)
    return _Builder(recorded, fit, scope, tuple(hints), inputs).build()


def _points(hints: dict[str, Any]) -> list[dict[str, Any]]:
    """Different values for different roots, with every root at many of them."""
    ints = [name for name, hint in hints.items() if isinstance(hint, int)]
    points = []
    for shift in range(len(SAMPLES)):
        chosen = {name: SAMPLES[(shift + 3 * k) % len(SAMPLES)] for k, name in enumerate(ints)}
        points.append({name: chosen.get(name, hint + 0.25 * shift) for name, hint in hints.items()})
    return points


class _Fitter:
    """From the values that a number has at each point to the expression over the roots."""

    def __init__(self, roots: dict[str, Any], hints: dict[str, Any], points: list[dict[str, Any]], features: Any) -> None:
        self.hints, self.points = hints, points
        ints = [name for name, hint in hints.items() if isinstance(hint, int)]
        products = [(a,) for a in ints] + list(itertools.combinations_with_replacement(ints, 2))
        products += list(itertools.combinations_with_replacement(ints, 3)) if len(ints) < 3 else []
        texts = ["1", *features, *("*".join(p) for p in products)]
        texts += [f"({a})*{b}" for a in features for b in ints]
        self.floats = [(name, roots[name]) for name, hint in hints.items() if isinstance(hint, float)]
        self.terms = [(eval(t, {}, dict(roots)), [eval(t, {}, dict(p)) for p in points]) for t in texts]
        self.combinations = [c for n in (1, 2, 3) for c in itertools.combinations(range(len(texts)), n)]

    def __call__(self, at_hint: Any, values: list[Any]) -> Any:
        if all(v == at_hint and type(v) is type(at_hint) for v in values):
            return at_hint
        for name, root in self.floats:
            if values == [point[name] for point in self.points]:
                return root
        for combination in self.combinations:
            found = _solve([self.terms[k][1] for k in combination], values)
            if found is not None:
                total = 0
                for k, factor in zip(combination, found, strict=True):
                    total = total + self.terms[k][0] * factor
                if (total.hint if is_size(total) else total) == at_hint:
                    return total
        raise AssertionError(f"no expression for {at_hint} and {values} at {self.points}")


def _solve(columns: list[list[int]], values: list[int]) -> list[int] | None:
    """Whole factors with sum(factor * column) == values at every point."""
    count = len(columns)
    rows = [[Fraction(column[k]) for column in columns] + [Fraction(values[k])] for k in range(count)]
    for k in range(count):
        pivot = next((r for r in range(k, count) if rows[r][k]), None)
        if pivot is None:
            return None
        rows[k], rows[pivot] = rows[pivot], rows[k]
        for r in range(count):
            if r != k and rows[r][k]:
                share = rows[r][k] / rows[k][k]
                rows[r] = [a - share * b for a, b in zip(rows[r], rows[k], strict=True)]
    factors = [rows[k][count] / rows[k][k] for k in range(count)]
    if any(f.denominator != 1 for f in factors):
        return None
    whole = [int(f) for f in factors]
    fits = all(sum(f * c[k] for f, c in zip(whole, columns, strict=True)) == v for k, v in enumerate(values))
    return whole if fits else None


class _Builder:
    def __init__(self, recorded: list[fx.GraphModule], fit: _Fitter, scope: Scope, roots: Any, inputs: Any) -> None:
        self.columns = list(zip(*(graph.graph.nodes for graph in recorded), strict=True))
        self.recorded, self.fit, self.scope, self.roots, self.inputs = recorded, fit, scope, roots, inputs
        self.graph = fx.Graph()
        self.made: dict[fx.Node, fx.Node] = {}
        self.root_nodes: dict[str, fx.Node] = {}

    def build(self) -> SymbolicGraph:
        for name in self.roots:
            node = self.root_nodes[name] = self.graph.placeholder(name)
            hint = self.scope.hints[name]
            node.meta.update(val=hint, size=self.scope.root(name, hint))
        for first, *others in self.columns:
            self._add(first, others)
        module = fx.GraphModule(torch.nn.Module(), self.graph)
        return SymbolicGraph(module, self.scope, self.roots, self.inputs)

    def _add(self, first: fx.Node, others: list[fx.Node]) -> None:
        assert all(other.target == first.target or first.op in ("placeholder", "output") for other in others)
        if first.op == "placeholder":
            if not isinstance(first.meta["val"], torch.Tensor):
                return
            node = self.graph.placeholder(first.name)
        elif first.op == "output":
            self.graph.output(self._operands(first.args[0], [other.args[0] for other in others]))
            return
        else:
            arguments = self._operands(first.args, [other.args for other in others])
            keywords = self._operands(dict(first.kwargs), [dict(other.kwargs) for other in others])
            node = self.graph.call_function(first.target, arguments, keywords)
        node.meta.update({k: first.meta[k] for k in ("val", "device", "user_stack") if k in first.meta})
        layout = self._layout(first.meta["val"], [other.meta["val"] for other in others])
        if layout is not None:
            node.meta["layout"] = layout
        self.made[first] = node

    def _layout(self, value: Any, others: list[Any]) -> Any:
        if isinstance(value, (list, tuple)):
            layouts = [self._layout(v, [o[k] for o in others]) for k, v in enumerate(value)]
            return None if all(layout is None for layout in layouts) else layouts
        if not isinstance(value, torch.Tensor):
            return None
        sizes = tuple(self.fit(v, [o.shape[k] for o in others]) for k, v in enumerate(value.shape))
        strides = tuple(self.fit(v, [o.stride(k) for o in others]) for k, v in enumerate(value.stride()))
        return Layout(sizes, strides, value.dtype, torch.device("cpu")) if any(map(is_size, sizes + strides)) else None

    def _operands(self, value: Any, others: list[Any]) -> Any:
        if isinstance(value, fx.Node):
            return self.made[value]
        if isinstance(value, dict):
            return {k: self._operands(v, [o[k] for o in others]) for k, v in value.items()}
        if isinstance(value, (list, tuple)):
            return type(value)(self._operands(v, [o[k] for o in others]) for k, v in enumerate(value))
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            fitted = self.fit(value, others)
            return self._number(fitted) if is_size(fitted) else fitted
        return value

    def _number(self, size: Size) -> fx.Node:
        if str(size) in self.root_nodes:
            return self.root_nodes[str(size)]

        def computed(*values: Any) -> Any:
            return evaluate(size.expression, dict(zip(self.roots, values, strict=True)))

        node = self.graph.call_function(computed, tuple(self.root_nodes[name] for name in self.roots))
        node.meta.update(val=size.hint, size=size)
        return node
