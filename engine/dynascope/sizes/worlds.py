"""Expressions found by asking: what torch computes at several sizes, read back as one form over the roots.

    worlds of n = 7:  n = 7, 5047, 2528, 27738
    torch says        14, 10094, 5056, 55476     ->  2 * n
    torch says        7, 7, 7, 7                  ->  7

The C++ of torch works with plain numbers. So a program is run once for each world, and every number that comes out is a row
of numbers; `expression` finds what gives that row. All values satisfy every relation relied on so far. The first other one
lies a multiple of many small numbers away from the hint, so that what divides the hint divides it; the rest do not, because
rounding to a multiple would not show among numbers that leave one remainder. A program that runs at such sizes alone (a view
of rows of 8) is asked at those: `steps` says of which number, and then that is relied on (`sizes/steps.py`). A row that no form gives
is None.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain, combinations, islice, permutations, product
from types import MappingProxyType
from typing import Any

from dynascope.sizes.expression import evaluate, roots_in
from dynascope.sizes.forms import FORMS, FORMS_OF_FLOATS, SURE_FORMS, Row
from dynascope.sizes.reach import lowest
from dynascope.sizes.relations import Relation, divided_by_root, is_true_of, most_of_roots
from dynascope.sizes.size import Scope, Size, roots_of

DIVISIBLE = (5040, 720, 240, 48, 16, 8, 4, 2, 1)
INDIVISIBLE = (2521, 841, 241, 61, 13, 7, 5, 3, 1)
"""Distances from the hint, the best to tell forms apart first."""
FACTORS = ((1, 2, 3, 5), (17, 13, 11, 1), (19, 11, 13, 23), (2, 9, 5, 31), (-1, -2, -3, -5))
"""How many distances each root of a world goes, so that no two of its roots move together. Which of two is the larger one is not
the same in the first two: torch takes the smaller of two sizes (a diagonal), or as many steps as fit. Where one root stays below another,
the fourth is not as many times as large as the first."""
COUNT = 4
BRIEF = 3
PRIMES = (4999, 3877, 3011, 2521)
"""Distances of brief worlds, falling."""
FLOATS = (2.1728193, -1.0, 7.9153347, -0.1143297, 0.0731193, -0.0312177, 0.0131719, -0.0057331)
"""How far floats go, times what they are at hand or 1: up, then down to nearly nothing, in no round numbers."""
NEARLY_NOTHING = 0.0687829
USUAL = 2
"""Numbers below are cases of their own."""
FEW, FEWEST = 2, -6
FARTHEST = (6000, 300)
"""How far a root may go, where few vary and where many do: numbers of elements stay below 2**63."""
FAR_APART = (2521, 241)
"""The same, of roots that are in another order than at hand."""
LEAST_FACTOR = 3
MANY_STEPS = 720
MOST_KNOWN = 4096
MOST_ADDED, MOST_RESIDUES, FEW_RESIDUES = 8, 65, 9
FEWEST_VALUES = COUNT
STEPS_OF_FLOATS = 8
MOST_APART = 16
"""Roots of which each two are told apart."""


class Worlds:
    """Values of the roots: the hints first, then three others. `varied` are the roots that differ among them, each by multiples
    of its number in `steps`, or of 1. With `reaches_down` the last are the least that relations allow: what fits there too need not
    be asked whether it does."""

    def __init__(
        self,
        scope: Scope,
        varied: Iterable[str] | None = None,
        steps: Mapping[str, int] = MappingProxyType({}),
        reaches_down: bool = False,
        is_brief: bool = False,
        of_floats: bool = False,
    ) -> None:
        self.scope, self.steps, self.is_brief = scope, steps, is_brief
        free = [name for name, root in scope.roots.items() if root.kind is int and name not in scope.pinned()]
        self.varied = free if varied is None else list(varied)
        self.floats: list[str] = []
        """The roots of floats that are others in other worlds."""
        self.wanted: dict[str, Any] | None = None
        """Where forms differ that fit the last row all."""
        self.values: list[dict[str, Any]] = [dict(scope.hints)]
        self.views_vary = False
        """Whether two views that are one at hand were seen to be two in others."""
        self.cut_results: set[int] | None = set()
        """The results that have holes in memory at some sizes, by their positions; None where that is decided by the sizes at hand."""
        self.exhausted: set[tuple[Any, Any, int]] = set()
        """Numbers that do not take a value, or no more than so many, as far as was looked."""
        self.are_all = False
        """Whether no other values keep to what was relied on: a form that fits is right, however few they are."""
        for found in self._brief_others() if is_brief else map(self._other, range(1, COUNT)):
            if found is not None:
                self.values.append(found)
        if of_floats:
            self._move_floats()
        self.are_all = not (self.floats and self.are_enough) and self._take_all()
        if reaches_down and self.are_enough and not self.are_all:
            least = lowest(scope, {name: self._below(name) for name in self.varied})
            if least not in self.values:
                self.values[-1] = least
        if self.are_enough and not self.are_all:
            self._reverse_order()
            self._tell_roots_apart()

    def _move_floats(self) -> None:
        """Floats are others too, at other sizes or alone. A size that follows from one has no form then: whoever asks has it fixed."""
        self.floats = [name for name, root in self.scope.roots.items() if root.kind is float and name not in self.scope.pinned()]
        for at in range(1, COUNT) if self.floats else ():
            beside = self.values[min(at, len(self.values) - 1)] if self.varied else self.values[0]
            if (moved := self._with_other_floats(beside, at - 1)) is None:
                continue
            if not self.varied:
                self.values.append(moved)
            elif at < len(self.values):
                self.values[at] = moved

    def _with_other_floats(self, values: dict[str, Any], first: int) -> dict[str, Any] | None:
        """All of them moved alike, where relations allow that; else as many as can be."""
        def away(name: str, distance: float) -> float:
            number = values[name]
            small = math.copysign(NEARLY_NOTHING * min(abs(number) or 1.0, 1.0), number)
            return type(number)(small if distance == -1.0 else number + distance * (abs(number) or 1.0))

        distances = FLOATS[first:] + FLOATS[:first]
        for distance in distances:
            if self._is_possible(moved := values | {name: away(name, distance) for name in self.floats}):
                return moved
        moved = dict(values)
        for name in self.floats[:MOST_APART]:
            near = ({**moved, name: away(name, distance)} for distance in distances)
            moved = next((each for each in near if self._is_possible(each)), moved)
        return moved if moved != values else None

    def _below(self, name: str) -> range:
        return range(int(max(self.scope.roots[name].low, USUAL)), self.scope.hints[name])

    def _take_all(self) -> bool:
        """Where roots have a few values to take: all of them. Where these are more than are asked, but each root has a few, and no others
        were found far away: some of them."""
        ranges = [self._few(name) for name in self.varied]
        if not ranges or not all(ranges) or not 1 < math.prod(map(len, ranges)) <= MOST_KNOWN:
            return False
        hints = self.scope.hints
        combined = ({**hints, **dict(zip(self.varied, each, strict=True))} for each in product(*ranges))
        possible = [values for values in combined if self._is_possible(values)]
        if len(possible) < 2 or hints not in possible:
            return False
        others = [values for values in possible if values != hints]
        if len(possible) <= COUNT + MOST_ADDED:
            self.values = [dict(hints), *others]
            return True
        if not self.are_enough and len(self.varied) > 1:
            step = max(len(others) // MOST_ADDED, 1)
            self.values += [values for values in others[::step][:MOST_ADDED] if values not in self.values]
        return False

    def _few(self, name: str) -> range:
        """The values of a root of which the most is relied on."""
        return range(int(max(self.scope.roots[name].low, USUAL)), self._most[name] + 1) if name in self._most else range(0)

    @property
    def are_enough(self) -> bool:
        """Whether rows tell forms apart: no value of the roots but the hints may satisfy what was relied on."""
        return self.are_all or len(self.values) >= (BRIEF if self.is_brief else COUNT)

    @property
    def are_possible(self) -> bool:
        """Whether all keep to what was relied on since."""
        return all(map(self._is_possible, self.values))

    def keep(self, relation: Relation) -> bool:
        """Whether all keep to what was relied on at hand."""
        return all(is_true_of(relation, values) for values in self.values)

    @property
    def choices(self) -> Any:
        """How the program is recorded."""
        return self.views_vary, None if self.cut_results is None else frozenset(self.cut_results)

    def cuts_none(self) -> bool:
        """Whether results were cut, and are not from now on."""
        had_some, self.cut_results = bool(self.cut_results), None
        return had_some

    def rely_on_steps(self) -> None:
        """What was found holds for numbers that leave the same remainders as those at hand."""
        for name, step in self.steps.items():
            if step > 1:
                _ = self._root(name) % step == self.scope.hints[name] % step

    def _root(self, name: str) -> Size:
        root = self.scope.roots[name]
        return self.scope.root(name, self.scope.hints[name], root.low, root.high)

    def _brief_others(self) -> Iterator[dict[str, Any] | None]:
        """Roots that are equal at hand are in both orders: a form of the smaller of two sizes does not pass for one of the first."""
        hints = [self.scope.hints[name] for name in self.varied]
        yield self._primes_away(PRIMES)
        if len({*hints}) < len(hints):
            yield self._primes_away(PRIMES[::-1])
        yield self._other(COUNT - 1)

    def _primes_away(self, primes: Sequence[int]) -> dict[str, Any] | None:
        """With falling primes the root that is the least at hand is the largest, and the other way round."""
        if len(self.varied) > len(primes):
            return None
        hints = self.scope.hints
        rising = sorted(self.varied, key=hints.__getitem__)
        values = hints | {name: hints[other] + prime for name, other, prime in zip(rising, reversed(rising), primes, strict=False)}
        return values if self._is_possible(values) else None

    def _other(self, number: int) -> dict[str, Any] | None:
        farthest = FARTHEST[sum(self.scope.times.get(name, 1) for name in self.varied) > FEW]
        distances = [each for each in (() if number == 1 else INDIVISIBLE) + DIVISIBLE if each <= farthest]
        for distance, factors in product(distances, FACTORS[number - 1 :] + FACTORS[: number - 1]):
            values = dict(self.scope.hints)
            for at, name in enumerate(self.varied):
                step = self.steps.get(name, 1)
                nearest = min(distance, max(farthest // step, LEAST_FACTOR))
                indivisible = next(each for each in INDIVISIBLE if each <= nearest)
                way = math.lcm(distance, step) if distance in DIVISIBLE else step * indivisible
                values[name] += way * factors[at % len(factors)] * (1 + at // len(factors))
                if step == 1 and values[name] > (most := self._most.get(name, values[name])):
                    least = min(self.scope.hints[name], USUAL)
                    values[name] = least + (values[name] - least) % (most + 1 - least)
                if name in self._divisors:
                    allowed = self._divisors[name]
                    values[name] = allowed[(allowed.index(self.scope.hints[name]) + distance * number) % len(allowed)]
            values = self._with_multiples(values)
            usual = all(values[name] >= min(self.scope.hints[name], USUAL) for name in self.varied)
            if usual and values not in self.values and self._is_possible(values):
                return values
        return None

    def _with_multiples(self, values: dict[str, Any]) -> dict[str, Any]:
        """What a root divides, moved up to the next of its multiples, the second to the one after that: quotients are not all the same."""
        for at, (dividend, divisor) in enumerate(self._multiples):
            for root in sorted(roots_in(dividend), key=str):
                step, first = self.steps.get(root.name, 1), values[root.name] + at * values[divisor]
                moved = ({**values, root.name: first + distance * step} for distance in range(min(values[divisor], MOST_KNOWN)))
                if root.name in self.varied and root.name != divisor:
                    values = next((each for each in moved if evaluate(dividend, each) % each[divisor] == 0), values)
        return values

    @property
    def _relied_on(self) -> Iterator[Relation]:
        return (relation for relation, _ in islice(self.scope.log, self.scope.binding))

    @cached_property
    def _most(self) -> dict[str, int]:
        """What roots are at the most, where that alone was relied on, or what they come to together."""
        found: dict[str, int] = {}
        for name, most in chain.from_iterable(map(most_of_roots, self._relied_on)):
            if name in self.scope.roots:
                found[name] = min(most, found.get(name, most))
        return found

    @cached_property
    def _divisors(self) -> dict[str, list[int]]:
        """The numbers that roots may be, where they divide a constant: the last one."""
        found = {}
        for dividend, name in map(divided_by_root, self._relied_on):
            if name in self.scope.roots and isinstance(dividend, int) and self.scope.hints[name] > 1:
                found[name] = [*(n for n in range(USUAL, min(dividend, MOST_KNOWN)) if dividend % n == 0), dividend]
        return {name: numbers for name, numbers in found.items() if self.scope.hints[name] in numbers}

    @cached_property
    def _multiples(self) -> list[tuple[Any, str]]:
        """What varies and has a root as its divisor."""
        found = map(divided_by_root, self._relied_on)
        return [(dividend, name) for dividend, name in found if name in self.scope.roots and not isinstance(dividend, int)]

    def _is_possible(self, values: Mapping[str, Any]) -> bool:
        return all(
            root.low <= values[name] <= root.high for name, root in self.scope.roots.items() if root.kind is int
        ) and all(is_true_of(relation, values) for relation, _ in islice(self.scope.log, self.scope.binding))

    def tell_apart(self, sizes: Iterable[Any]) -> None:
        """Adds a world where two numbers that the program computed are the same in all so far and differ in others, and where one is
        another where it takes few values so far: `n % 4` is 0 in many, and `n / 4 - n // 4` 0.0; of 0 and 1 alone any two forms are one."""
        met: dict[Row, Any] = {}
        for size in sizes:
            while isinstance(size, Size) and len(self.values) < COUNT + MOST_ADDED and (row := self._row(size)) is not None:
                if (found := self._where_another(size, {*row})) is None:
                    other = met.setdefault(row, size)
                    if other is size or (found := self._where_different(size, other)) is None:
                        break
                self._add(found)
                met = {}

    def _reverse_order(self) -> None:
        """Adds worlds where roots whose order is the same in all so far are in the other one: what is cut at the end of a long table
        (`table[n : n + 4]`) is seen to be only there."""
        rising = sorted(self.varied[:MOST_APART], key=self.scope.hints.__getitem__)
        far = FAR_APART[len(self.varied) > FEW]
        falling = {name: self._near(name, far * (len(rising) - at)) for at, name in enumerate(rising)}
        for one, other in combinations(rising, 2):
            if len(self.values) >= COUNT + MOST_ADDED or any(values[one] > values[other] for values in self.values):
                continue
            near = self.values[min(1, len(self.values) - 1)]
            pair = {one: self._near(one, near[other] + far)}
            others = (values for each in (falling, pair) if (values := near | each) not in self.values and self._is_possible(values))
            if (found := next(others, None)) is not None:
                self._add(found)

    def _near(self, name: str, number: int) -> int:
        """The least number that is as many steps of the root away from the hint as it must be, and no less."""
        step, hint = self.steps.get(name, 1), self.scope.hints[name]
        return hint + -(-(number - hint) // step) * step

    def _tell_roots_apart(self) -> None:
        """Adds a world where one root is a factor times another plus an offset in all so far, as may be where few values are possible:
        what is a line of the one would pass for a line of the other."""
        for one, other in permutations(self.varied[:MOST_APART], 2):
            if self._is_line(one, other, self.values) and len(self.values) < COUNT + MOST_ADDED:
                near = self.values[min(1, len(self.values) - 1)]
                for name, distance in product((one, other), range(-FEW_RESIDUES, FEW_RESIDUES)):
                    values = {**near, name: near[name] + distance * self.steps.get(name, 1)}
                    usual = values[name] >= min(self.scope.hints[name], USUAL)
                    if usual and self._is_possible(values) and not self._is_line(one, other, [*self.values, values]):
                        self._add(values)
                        break

    @staticmethod
    def _is_line(one: str, other: str, worlds: Sequence[Mapping[str, Any]]) -> bool:
        first = worlds[0]
        rises = [(values[one] - first[one], values[other] - first[other]) for values in worlds[1:]]
        run, rise = next(((run, rise) for run, rise in rises if run), (1, 1))
        factor, remainder = divmod(rise, run)
        return not remainder and all(down == factor * along for along, down in rises)

    def want(self, size: Size, low: int, high: int, divisor: int) -> bool:
        """Notes the world where `(size + offset) // divisor` is not the same for offsets from `low` to `high`, as near to half of them as
        can be. False where there is none."""
        near, best = self.values[min(1, len(self.values) - 1)], None
        for name in (root.name for root in roots_of([size]) if root.name in self.varied):
            for distance in range(1, MOST_RESIDUES):
                values = {**near, name: near[name] + distance * self.steps.get(name, 1)}
                jump = -evaluate(size.expression, values) % divisor
                jump += (low - jump + divisor) // divisor * divisor  # the least above `low`
                if jump <= high and self._is_possible(values):
                    best = min(best or (high, {}), (abs(2 * jump - low - high), values), key=lambda pair: pair[0])
        self.wanted = best and best[1]
        return bool(self.wanted)

    def grow(self) -> bool:
        """Whether a form could not be told from others: then there is a world more, in which it can."""
        if self.wanted is None or len(self.values) >= COUNT + MOST_ADDED:
            return False
        self._add(self.wanted)
        return True

    def _add(self, values: dict[str, Any]) -> None:
        self.values.append(values)
        self.wanted = None
        for name in ("known", "_known_floats", "_rows"):
            self.__dict__.pop(name, None)

    def _where_another(self, size: Size, values: set[int | float]) -> dict[str, Any] | None:
        """Where a number is the least or the most that it can be, the others as at hand (`n % 7` is cut at the end of 4), or takes
        another value if it takes few so far."""
        low, high = size.bounds
        ends: list[Any] = []
        if high - low < MOST_RESIDUES:
            beside = self.scope.hints.keys() - {root.name for root in roots_of([size])}
            near = [world for world in self.values if all(world[name] == self.scope.hints[name] for name in beside)]
            ends += {low, high} - {evaluate(size.expression, world) for world in near}
        for end in [*ends, None] if len(values) < min(FEWEST_VALUES, len(self.values)) else ends:
            if (size.expression, end, len(values)) in self.exhausted:
                continue
            is_wanted = values.isdisjoint if end is None else {end}.issuperset
            found = self._where(size, lambda value, holds=is_wanted: holds((value,)), at_hand=end is not None)
            if found is not None:
                return found
            self.exhausted.add((size.expression, end, len(values)))
        return None

    def beside_hand(self) -> list[dict[str, Any]]:
        """In what worlds that are as at hand differ from it, where that is one root."""
        hints = self.scope.hints
        others = ({name: value for name, value in world.items() if value != hints[name]} for world in self.values)
        return [other for other in others if len(other) == 1]

    def where_apart(self, one: Size, other: Size) -> dict[str, Any] | None:
        """Where two forms that fit all rows so far differ."""
        difference = one - other
        return self._where(difference, bool, at_hand=True) if isinstance(difference, Size) else None

    def _where_different(self, size: Size, other: Any) -> dict[str, Any] | None:
        difference = size - other
        return self._where(difference, bool) if isinstance(difference, Size) else None

    def _where(self, size: Size, is_wanted: Callable[[Any], bool], at_hand: bool = False) -> dict[str, Any] | None:
        """Values for which a number is as wanted: above those of the first other world, else below those at hand (`max(n, 5)`), or above
        (`min(n, x.shape[0])` is x.shape[0] where that is as at hand); of numbers that are no sizes small ones and negative ones too
        (`ceil(k / n)` is k where k is 1 or 0 and n is not). With `at_hand` the others are so."""
        near, hints = self.values[min(1, len(self.values) - 1)], self.scope.hints
        for name in (root.name for root in roots_of([size]) if root.name in self.varied):
            step = self.steps.get(name, 1)
            far = (MOST_RESIDUES - 1) * step
            low = max(self._below(name).start, hints[name] - far)
            above = range(step, far + step, step)
            below = range(hints[name] - step, low - 1, -step)
            small = range(USUAL - 1, FEWEST, -1) if self.scope.roots[name].low < USUAL else ()
            far_off = ({**near, name: near[name] + distance} for distance in above)
            less = ({**hints, name: number} for number in below)
            more = ({**hints, name: hints[name] + distance} for distance in above)
            least = ({**world, name: number} for world in self.values for number in small)
            for values in chain(more, less) if at_hand else chain(far_off, less, more, least):
                if self._is_possible(values) and _is_as(size, values, is_wanted):
                    return values
        near_floats = () if at_hand else self._near_floats(size)
        return next((values for values in near_floats if _is_as(size, values, is_wanted)), None)

    def _near_floats(self, size: Size) -> Iterator[dict[str, Any]]:
        hints = self.scope.hints
        for name in (root.name for root in roots_of([size]) if root.name in self.floats):
            for part in range(1, MOST_RESIDUES):
                for distance in (part, -part):
                    step = FLOATS[0] * (abs(hints[name]) or 1.0) / STEPS_OF_FLOATS + (FLOATS[2] if abs(hints[name]) > 1 else 0)
                    values = {**hints, name: hints[name] + distance * step}
                    if self._is_possible(values):
                        yield values

    # From numbers to expressions

    @cached_property
    def known(self) -> dict[Row, Size]:
        """Rows of expressions that were met, the roots at first. One that is the same in all worlds would pass for a constant."""
        known: dict[Row, Size] = {}
        for name, root in self.scope.roots.items():
            if root.kind is int and name in self.varied:
                size = self._root(name)
                known[self.row(size)] = size
        for name, numbers in self._divisors.items():
            size = numbers[-1] // self._root(name)
            known.setdefault(self.row(size), size)
        return known

    def row(self, value: Any) -> Row:
        """What a size or number is in each world."""
        if not isinstance(value, Size):
            return (value,) * len(self.values)
        found = self._rows.get(value.expression)
        if found is None:
            found = self._rows[value.expression] = tuple(evaluate(value.expression, values) for values in self.values)
        return found

    @cached_property
    def _rows(self) -> dict[Any, Row]:
        """By expressions, for as long as the worlds are these."""
        return {}

    @cached_property
    def _known_floats(self) -> dict[Row, Size]:
        """Rows of floats that the program computed of its numbers."""
        return {}

    def learn(self, values: Iterable[Any]) -> None:
        """Sizes that are likely to come back. What follows from a float is none: where it is cut at the end of a tensor was not seen."""
        for value in values:
            if isinstance(value, Size) and len(self.known) < MOST_KNOWN and not self.follows_floats(value):
                if (row := self._row(value)) is not None:
                    (self.known if value.kind is int else self._known_floats).setdefault(row, value)

    def _row(self, value: Size) -> Row | None:
        try:
            return self.row(value)
        except NO_ANSWER:
            return None

    def is_known(self, row: Row) -> bool:
        """Whether it is of an expression that was met, or a constant."""
        return row in self.known or row in self._known_floats or row.count(row[0]) == len(row)

    def expression(self, row: Row) -> Size | int | float | None:
        """The size that has these values in the worlds; a number that is one in all; None where no form is found."""
        first = row[0]
        if all(number == first and type(number) is type(first) for number in row):
            return first
        integers = all(type(number) is int for number in row)
        known = self.known.get(row) if integers else self._known_floats.get(row)
        if known is None:
            forms = FORMS_OF_FLOATS if not integers else SURE_FORMS if self.is_brief else FORMS
            self.wanted = None
            for form in forms:
                known = form(self, row)
                if known is not None or self.wanted is not None:
                    break
            if known is not None:
                self.learn([known])
        return known

    def follows_floats(self, value: Any) -> bool:
        return bool(self.floats) and any(root.name in self.floats for root in roots_of([value]))

    def unless_wrong(self, size: Any, row: Row) -> Any:
        try:
            return size if self.row(size) == row else None
        except ZeroDivisionError:
            return None


def _is_as(size: Size, values: Mapping[str, Any], is_wanted: Callable[[Any], bool]) -> bool:
    try:
        number = evaluate(size.expression, values)
        return not isinstance(number, complex) and is_wanted(number)
    except NO_ANSWER:
        return False


NO_ANSWER = (ArithmeticError, ValueError, TypeError)
"""Of a number that only the run knows nothing is relied on: `(-1) ** 0.5` is complex, and complex numbers have no order."""
