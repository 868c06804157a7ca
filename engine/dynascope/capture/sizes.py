"""The numbers of one capture that vary: what they are called, where they lie, and what was relied on.

root(7, LocalSource("n"), "n")  a Size over the root `n`, which is an input of the graph
guards()                        every relation that a decision relied on, such as `n` keeps to `n <= 512`
"""

from __future__ import annotations

import itertools
import operator
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

from dynascope.capture import numpy_numbers
from dynascope.capture.graph import GraphBuilder
from dynascope.capture.region import CaptureOptions
from dynascope.capture.signals import Break
from dynascope.capture.values import ConditionValue, ConstantValue, SymbolicNumber, Value
from dynascope.guards.guard import Guard
from dynascope.guards.relation_guard import RelationHolds
from dynascope.guards.source import ExtentSource, ItemSource, LocalSource, Source
from dynascope.report.span import UserStack
from dynascope.sizes import (
    Relation,
    Root,
    Scope,
    Size,
    apply,
    is_function_of_numbers,
    kind_of,
    known,
    may_lack_an_answer,
    rely_on_domain,
    roots_of,
)
from dynascope.sizes.domains import DIVISIONS
from dynascope.sizes.expression import INFINITY, of_root
from dynascope.sizes.functions import NAMES
from dynascope.sizes.size import IN_PLACE, hint_of

LEAST, MOST = 2, 2**63 - 1
"""No tensor has a larger size or stride."""


def number_in(value: Value) -> Any:
    """The size, or the object that a constant is."""
    if isinstance(value, ConditionValue):
        return None
    return value.size if isinstance(value, SymbolicNumber) else getattr(value, "value", None)


def argument_parts(source: Source) -> list[Source]:
    """An argument, what is looked at in it, and in that; none where a place is no part of an argument."""
    parts = [source]
    while isinstance(parts[0], ItemSource):
        parts.insert(0, parts[0].base)
    return parts if isinstance(parts[0], LocalSource) else []


class Sizes:
    """The scope of a capture, which the back end goes on using: guards are made when both are done."""

    def __init__(self, graph: GraphBuilder, user_stack: Callable[[], UserStack], look: Callable[[Source], Any]) -> None:
        """`look` makes what lies at a place known to the capture, with its guards."""
        self.scope = Scope(user_stack)
        self.graph, self.look = graph, look
        self.places: dict[str, tuple[Source, UserStack]] = {}
        self.extents: dict[tuple[int, int | None, int | None], Size] = {}
        """Of tensors, by their values at hand, what they were at earlier captures, and what else tells them apart."""
        self.made: dict[Source, Size] = {}
        """What lies at each place of a number that varies."""
        self.begun: dict[Source, tuple[int, ...]] = {}
        """The tensors whose sizes are being made."""
        self.seen: dict[Source, int] = {}
        """Every size of a tensor from outside, and every int, as it is."""
        self.counts: dict[tuple, Size] = {}
        """How many are true in a mask, by its node and version."""
        self.divisor: SymbolicNumber | None = None
        """The number that only the run of the graph knows and that something is divided by just now."""
        self.layouts: dict[Relation, UserStack] = {}
        """How extents hang together that are no roots of their own."""

    def number(self, hint: int | float, source: Source, options: CaptureOptions) -> Size:
        """The number at a place, as an input of the graph, or as what gives it where it is tied."""
        size = self.made.get(source)
        if size is None:
            size = self._tied(hint, source, options) if type(hint) is int else None
            size = self._root(hint, source, source.expression()) if size is None else size
            self.graph.journal.set_item(self.made, source, size)
        return size

    def _root(self, hint: int | float, source: Source, name: str) -> Size:
        taken = self.scope.roots.keys()
        name = re.sub(r"\W+", "_", name).strip("_") or "number"
        while name in taken:
            name += "_"
        size = self.scope.root(name, hint)
        self.places[name] = source, self.scope.where()
        self.graph.number_input(size, source)
        return size

    def size_of_tensor(self, hint: int, source: Source, options: CaptureOptions) -> Size:
        """Those that are equal now and at earlier captures always were are one root; those that are tied are what gives them."""
        known_as = hint, options.earlier.get(source), options.apart.get(source)
        size = self.made.get(source)
        if size is None:
            if (size := self.extents.get(known_as)) is not None:
                self.follows(source, size)
            elif (size := self._tied(hint, source, options)) is not None:
                _ = size >= LEAST
            else:
                size = self.root_at(hint, source)
                if options.dynamic is True:
                    self.scope.assumed.update(root.name for root in roots_of([size]))
            self.graph.journal.set_item(self.made, source, size)
        self.graph.journal.set_item(self.extents, known_as, size)
        return size

    def _tied(self, hint: int, source: Source, options: CaptureOptions) -> Size | None:
        """What gives the number at a place, where it does so now. None where it is not tied, or to a constant."""
        tie = options.ties.get(source)
        if tie is None or not options.fixed.isdisjoint(tie.keys):
            return self._gives_earlier(hint, source, options)
        sizes = [self._given_at(place, options) for place in tie.keys]
        if any(size is None or size.hint < LEAST for size in sizes) or (size := tie.of(sizes)).hint != hint:
            return None
        self.follows(source, size)
        return size

    def _gives_earlier(self, hint: int, source: Source, options: CaptureOptions) -> Size | None:
        """The number at a place that gives one by a difference which the program came to before, and which therefore gives it: a mask is an
        argument, and the cache that is one shorter is found inside of others."""
        for place, tie in options.ties.items():
            known = self.made.get(place) if place not in options.fixed else None
            if known is not None and tie.keys == (source,) and tie.is_difference and known.hint - tie.offset == hint:
                self.follows(source, size := known - tie.offset)
                return size
        return None

    def _given_at(self, place: Source, options: CaptureOptions) -> Size | None:
        """What varies at a place, which may be an argument that the program comes to later."""
        if place in self.made:
            return self.made[place]
        base = place.base if isinstance(place, ExtentSource) else place
        if (sizes := self.begun.get(base)) is not None:
            is_there = isinstance(place, ExtentSource) and place.kind == "size" and place.dimension < len(sizes)
            return self.size_of_tensor(sizes[place.dimension], place, options) if is_there else None
        for each in argument_parts(base):
            self.look(each)
        return self.made.get(place)

    def root_at(self, hint: int, source: Source) -> Size:
        """A tensor's size or stride that varies by itself."""
        name = self._new_name("s")
        size = self.scope.root(name, hint, low=LEAST, high=MOST)
        self.places[name] = source, self.scope.where()
        self.graph.number_input(size, source)
        return size

    def late(self, kind: type, hint: int | float, low: float) -> Size:
        """A number that the graph finds when it runs."""
        name = next(name for at in itertools.count() if (name := f"u{at}") not in self.scope.roots)
        self.scope.late.add(name)
        return self.scope.root(name, kind(hint), low, MOST if kind is int else INFINITY)

    def is_late(self, value: Value) -> bool:
        """Whether only the run of the graph knows a number."""
        if not self.scope.late or not isinstance(value, SymbolicNumber):
            return False
        if isinstance(value, ConditionValue):
            return True
        return self.are_late([value.size])

    def follows(self, source: Source, size: Size) -> None:
        """What lies at a place is that size, always: a guard, and no root."""
        name = self._new_name("extent")
        self.places[name] = source, self.scope.where()
        low = 0 if isinstance(source, ExtentSource) else -INFINITY
        self.layouts[Relation("==", of_root(Root(name, int, low)), size.expression)] = self.scope.where()

    def _new_name(self, prefix: str) -> str:
        return next(name for at in itertools.count() if (name := f"{prefix}{at}") not in self.places)

    def value(self, number: Any, source: Source | None = None) -> Value:
        """A size, or a plain number, as a value of the program's."""
        return SymbolicNumber(number, self.graph, source) if isinstance(number, Size) else ConstantValue(number, source)

    def compute(self, function: Callable[..., Any], values: Sequence[Value]) -> Value | None:
        """A function of numbers of which some vary; None where it is none, or raises for the numbers at hand."""
        if not any(isinstance(value, SymbolicNumber) for value in values) or not is_function_of_numbers(function):
            return None
        if function in (operator.pow, operator.ipow) and self.is_late(values[-1]) and not known(">=", values[-1].size, 0):
            return None  # whether it is an int hangs on the sign
        numbers = [number_in(value) for value in values]
        if any(kind_of(number) is None for number in numbers):
            return None
        name = NAMES.get(IN_PLACE.get(function, function))
        self.divisor = values[-1] if name in DIVISIONS and self.is_late(values[-1]) else None
        try:
            result = apply(function, numbers)
            if kind_of(result) is not None and name:
                self._answer_to(name, numbers, result)
        except (Exception, Break):  # which numbers only the run knows: the instruction itself says what it needs of them
            return None
        finally:
            self.divisor = None
        if type(result) is bool and any(type(hint_of(number)) in numpy_numbers.TYPES for number in numbers):
            return ConstantValue(type(function(*map(hint_of, numbers)))(result))  # NumPy's numbers answer with its own truths
        return self.value(result) if kind_of(result) is not None else None

    def _answer_to(self, name: str, numbers: Sequence[Any], result: Any) -> None:
        """Relies on there being one. Of numbers that only the run knows the run is asked, though nobody read it."""
        if not self.are_late(numbers):
            rely_on_domain(name, numbers)
        elif may_lack_an_answer(name, numbers) and isinstance(result, Size):
            self.graph.number(result).meta["may_lack_an_answer"] = True

    def are_late(self, numbers: Sequence[Any]) -> bool:
        """Whether only the run of the graph knows one of them."""
        return not self.scope.late.isdisjoint(root.name for root in roots_of(numbers))

    def constants(self) -> frozenset[Source]:
        """Sizes of tensors, and whole numbers, that turned out to be needed as they are."""
        names = [name for name in self.scope.pinned() if name in self.places]
        return frozenset(self.places[name][0] for name in names if self.scope.roots[name].kind is int)

    def sharing(self, places: Collection[Source]) -> list[dict[Source, int]]:
        """Of each root at these places the sizes of tensors that are it, with their dimensions, counted from the last one: tensors are
        matched from there."""
        ranks = Counter(place.base for place in self.seen if isinstance(place, ExtentSource) and place.kind == "size")
        found: dict[int, dict[Source, int]] = {id(self.made[place]): {} for place in places if place in self.made}
        for place, size in self.made.items():
            if id(size) in found and isinstance(place, ExtentSource):
                found[id(size)][place] = place.dimension - ranks[place.base]
        return [*found.values()]

    def varying(self) -> list[Source]:
        """Where whole numbers are that vary by themselves."""
        return [source for name, (source, _) in self.places.items() if name in self.scope.roots and self.scope.roots[name].kind is int]

    def finish(self) -> None:
        """Capture is over. Relations that the back end adds are of no line unless it says of which."""
        self.scope.where = tuple
        self.scope.undecided = self.scope.decided = None
        del self.graph, self.look

    def guards(self) -> tuple[Guard, ...]:
        return tuple(self._guards())

    def _guards(self) -> Iterator[Guard]:
        for relation, stack in (*self.layouts.items(), *self.scope.log):
            if not self.scope.is_late(relation):
                yield self._guard(relation, stack)

    def _guard(self, relation: Relation, stack: UserStack) -> Guard:
        names = tuple(root.name for root in relation.roots())
        sources = tuple(self.places[name][0] for name in names)
        words = str(relation)
        for name, source in sorted(zip(names, sources, strict=True), key=lambda pair: -len(pair[0])):
            words = re.sub(rf"\b{re.escape(name)}\b(?![.(])", re.escape(source.expression()).replace("\\", ""), words)
        return Guard(sources, RelationHolds(relation, names, words), stack[-1].span if stack else None, stack)
