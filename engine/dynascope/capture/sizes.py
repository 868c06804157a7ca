"""The numbers of one capture that vary: what they are called, where they lie, and what was relied on.

root(7, LocalSource("n"), "n")  a Size over the root `n`, which is an input of the graph
guards()                        every relation that a decision relied on, such as `n` keeps to `n <= 512`
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from dynascope.capture.graph import GraphBuilder
from dynascope.capture.values import ConstantValue, SymbolicNumber, Value
from dynascope.guards.guard import Guard
from dynascope.guards.relation_guard import RelationHolds
from dynascope.guards.source import Source
from dynascope.report.span import UserStack
from dynascope.sizes import Relation, Scope, Size, apply, is_function_of_numbers, kind_of


def number_in(value: Value) -> Any:
    """The size, or the object that a constant is."""
    return value.size if isinstance(value, SymbolicNumber) else getattr(value, "value", None)


class Sizes:
    """The scope of a capture, which the back end goes on using: guards are made when both are done."""

    def __init__(self, graph: GraphBuilder, user_stack: Callable[[], UserStack]) -> None:
        self.scope = Scope(user_stack)
        self.graph = graph
        self.places: dict[str, tuple[Source, UserStack]] = {}

    def root(self, hint: int | float, source: Source, name: str) -> Size:
        """The number at a place, as an input of the graph."""
        taken = self.scope.roots.keys()
        name = re.sub(r"\W+", "_", name).strip("_") or "number"
        while name in taken:
            name += "_"
        size = self.scope.root(name, hint)
        self.places[name] = source, self.scope.where()
        self.graph.number_input(size, source)
        return size

    def value(self, number: Any, source: Source | None = None) -> Value:
        """A size, or a plain number, as a value of the program's."""
        return SymbolicNumber(number, self.graph, source) if isinstance(number, Size) else ConstantValue(number, source)

    def compute(self, function: Callable[..., Any], values: Sequence[Value]) -> Value | None:
        """A function of numbers of which some vary; None where it is none, or raises for the numbers at hand."""
        if not any(isinstance(value, SymbolicNumber) for value in values) or not is_function_of_numbers(function):
            return None
        numbers = [number_in(value) for value in values]
        if any(kind_of(number) is None for number in numbers):
            return None
        try:
            result = apply(function, numbers)
        except Exception:
            return None
        return self.value(result) if kind_of(result) is not None else None

    def finish(self) -> None:
        """Capture is over. Relations that the back end adds are of no line unless it says of which."""
        self.scope.where = tuple
        del self.graph

    def guards(self) -> tuple[Guard, ...]:
        return tuple(self._guards())

    def _guards(self) -> Iterator[Guard]:
        for relation, stack in self.scope.log:
            yield self._guard(relation, stack)

    def _guard(self, relation: Relation, stack: UserStack) -> Guard:
        names = tuple(root.name for root in relation.roots())
        sources = tuple(self.places[name][0] for name in names)
        words = str(relation)
        for name, source in sorted(zip(names, sources, strict=True), key=lambda pair: -len(pair[0])):
            words = re.sub(rf"\b{re.escape(name)}\b(?![.(])", re.escape(source.expression()).replace("\\", ""), words)
        return Guard(sources, RelationHolds(relation, names, words), stack[-1].span if stack else None, stack)
