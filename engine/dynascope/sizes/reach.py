"""How far what was found at some sizes holds: torch clamps, refuses or takes another way where a size is small or large.

    x[:5].shape[0]    5 at n = 7 and all that is larger, but 4 at n = 4        `n >= 5` is relied on
    x + 1             the same at n = 2                                         nothing is
    x[n]              24 rows: nothing runs at n = 5047                         `n <= 23`
    x.view(n, -1)     24 elements: it runs with divisors alone                  `24 % n == 0`

Large sizes are asked for a form (`worlds`). The least that all relations allow are asked whether it holds there too; where it
does not, the least from which on it does is searched for, one root at a time, and relied on. Of numbers that are no sizes 1, 0
and a few below are asked as well.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import prod
from types import MappingProxyType
from typing import Any

from dynascope.sizes.relations import is_true_of
from dynascope.sizes.size import Scope

LEAST = 2
"""0 and 1 are cases of their own, and numbers below them too."""
MANY = 4096
ENOUGH = 3
"""Other values that a form is told from."""
MOST_DIVISORS = 5
MOST_RAISED = 3
MOST_TRIED = 32
FARTHEST = 2**16
FAR_BELOW = 2**16
"""Asked after the next three: what begins at `n + 4` is cut off where n is -4."""
NO_STEPS: Mapping[str, int] = MappingProxyType({})

Values = Mapping[str, Any]


def keep_above(
    scope: Scope, varied: Iterable[str], fits: Callable[[Values], bool], steps: Mapping[str, int] = NO_STEPS
) -> None:
    """Relies on roots not being so small that `fits` is no longer true; it is true of the values at hand. Where a root goes by
    steps alone, the least leaves the same remainder."""
    varied = list(varied)
    _keep_sizes_above(scope, varied, fits, steps)
    for name in varied:
        if scope.roots[name].low < LEAST:
            _keep_number_above(scope, name, fits)


def keep_below(scope: Scope, name: str, runs: Callable[[Values], bool]) -> bool:
    """Relies on a root not being so large that the program does not run. False where it runs with hardly any but the one at
    hand."""
    hint = scope.hints[name]

    def is_taken(number: int) -> bool:
        values = {**scope.hints, name: number}
        return is_possible(scope, values) and runs(values)

    near = [*range(max(hint - 4, LEAST), hint), *range(hint + 1, hint + 5)]
    if sum(map(is_taken, near)) < ENOUGH:
        return False
    step = 1
    while step < FARTHEST and is_taken(hint + step):
        step *= 2
    known, failing = hint + step // 2, hint + step
    while failing - known > 1:
        between = (known + failing) // 2
        known, failing = (between, failing) if is_taken(between) else (known, between)
    root = scope.roots[name]
    _ = scope.root(name, hint, root.low, root.high) <= known
    return True


def keep_between(scope: Scope, name: str, fits: Callable[[Values], bool]) -> bool:
    """Relies on a root being neither so small nor so large that `fits` is no longer true. False where it is true of hardly any but
    the one at hand, or of all."""
    hint, root = scope.hints[name], scope.roots[name]

    def is_taken(number: int) -> bool:
        values = {**scope.hints, name: number}
        return number >= LEAST and is_possible(scope, values) and fits(values)

    least, most = (hint + way * _farthest(lambda distance, way=way: is_taken(hint + way * distance)) for way in (-1, 1))
    if hint < LEAST or least == most or most - hint >= FARTHEST // 2:
        return False
    near = range(max(least, hint - MOST_TRIED), min(most, hint + MOST_TRIED) + 1)
    if not all(fits({**scope.hints, name: number}) for number in near if is_possible(scope, {**scope.hints, name: number})):
        return False  # what hangs on a remainder has no two ends
    size = scope.root(name, hint, root.low, root.high)
    return bool(size >= least and size <= most)


def edges(scope: Scope, values: Values, names: Iterable[str]) -> Iterator[Values]:
    """The farthest that relations let each of these roots be from `values`, the others as they are there; not where nothing or a
    root's own bounds limit it."""
    for name, way in itertools.product(names, (1, -1)):
        root = scope.roots[name]

        def at(distance: int, name: str = name, way: int = way) -> Values:
            return {**values, name: values[name] + way * distance}

        distance = _farthest(lambda distance, at=at: is_possible(scope, at(distance)))
        if distance < FARTHEST // 2 and at(distance)[name] not in (root.low, root.high):
            yield at(distance)


def _farthest(is_taken: Callable[[int], bool]) -> int:
    """The largest distance that is taken, of those that all smaller ones are taken of; at least half of FARTHEST where none ends it."""
    step = 1
    while step < FARTHEST and is_taken(step):
        step *= 2
    return bisect_left(range(step // 2, step), True, key=lambda each: not is_taken(each + 1)) + step // 2


def keep_dividing(scope: Scope, name: str, shapes: Iterable[Sequence[int]], runs: Callable[[Values], bool]) -> bool:
    """Relies on a root dividing a size, or the number of elements, of one of `shapes`, where the program runs with its divisors and
    not with the numbers between. False where that is not what it needs."""
    hint, root = scope.hints[name], scope.roots[name]
    counts = {count for shape in shapes for count in (*shape, prod(shape))}

    def is_taken(number: int) -> bool:
        values = {**scope.hints, name: number}
        return is_possible(scope, values) and runs(values)

    for count in sorted(counts, reverse=True):
        if hint < LEAST or count <= hint or count % hint:
            continue
        divisors = [number for number in range(LEAST, min(count, MANY) + 1) if count % number == 0 and number != hint]
        tried = sorted(divisors, key=lambda number: abs(number - hint))[:MOST_DIVISORS]
        other = next(number for number in itertools.count(LEAST) if count % number)
        if len(tried) >= ENOUGH and all(map(is_taken, tried)) and not is_taken(other):
            _ = count % scope.root(name, hint, root.low, root.high) == 0
            return True
    return False


def _keep_number_above(scope: Scope, name: str, fits: Callable[[Values], bool]) -> None:
    hint, root = scope.hints[name], scope.roots[name]

    def is_taken(number: int) -> bool | None:
        values = {**scope.hints, name: number}
        return fits(values) if is_possible(scope, values) else None

    last = min(hint, LEAST)
    for number in (*range(last - 1, last - 4, -1), last - FAR_BELOW):
        if (answer := is_taken(number)) is None:  # such as 0, where something is divided by it
            continue
        if not answer:
            while last - number > 1:
                between = (last + number) // 2
                last, number = (between, number) if is_taken(between) else (last, between)
            _ = scope.root(name, hint, root.low, root.high) >= last
            return
        last = number


def _keep_sizes_above(
    scope: Scope, varied: list[str], fits: Callable[[Values], bool], steps: Mapping[str, int]
) -> None:
    candidates = {name: _below(scope, name, steps.get(name, 1)) for name in varied}
    least = lowest(scope, candidates)
    if least == scope.hints or fits(least):
        return
    floors = dict(least)
    for name in varied:
        floors[name] = _least_fitting(scope, name, [each for each in candidates[name] if each >= least[name]], fits)
    if not _holds(scope, floors, fits):
        floors = {name: floors[name] + varied.index(name) if name in varied else floors[name] for name in floors}
        apart = {name: min(number, max(scope.hints[name], least[name])) for name, number in floors.items()}
        floors = apart if _holds(scope, apart, fits) else _raised(scope, apart, candidates, fits)
    for name in varied:
        if floors[name] > least[name]:
            root = scope.roots[name]
            _ = scope.root(name, scope.hints[name], root.low, root.high) >= floors[name]


def _raised(
    scope: Scope, floors: dict[str, Any], candidates: Mapping[str, Iterable[int]], fits: Callable[[Values], bool]
) -> dict[str, Any]:
    """Where roots are too small together alone: one of them larger (an image of one column may be of any height), else all as they
    are at hand."""
    def at(name: str) -> Callable[[int], bool]:
        return lambda number: fits({**floors, name: number})

    for name in list(candidates)[:MOST_RAISED]:
        larger = [each for each in candidates[name] if each > floors[name] and is_possible(scope, {**floors, name: each})]
        found = [*larger, scope.hints[name]][bisect_left(larger, True, key=at(name))]
        if _holds(scope, {**floors, name: found}, fits):
            return {**floors, name: found}
    return dict(scope.hints)


def lowest(scope: Scope, candidates: Mapping[str, Iterable[int]]) -> dict[str, Any]:
    """The least values that relations and bounds allow, one root after the other."""
    values = dict(scope.hints)
    for name, numbers in candidates.items():
        values[name] = next(
            (number for number in numbers if is_possible(scope, {**values, name: number})), values[name]
        )
    return values


def is_possible(scope: Scope, values: Values) -> bool:
    """Whether values keep to bounds and to all that was relied on."""
    within = all(root.low <= values[name] <= root.high for name, root in scope.roots.items() if root.kind is int)
    return within and all(is_true_of(relation, values) for relation, _ in scope.log)


def _below(scope: Scope, name: str, step: int) -> Sequence[int]:
    """Values of a root that are less than the one at hand, the least first; some of them where they are many."""
    low, high = int(max(scope.roots[name].low, LEAST)), scope.hints[name]
    low += (high - low) % step
    if high - low <= MANY * step:
        return range(low, high, step)
    count = (high - low) // step
    near = {
        *range(64),
        *(count * part // 64 for part in range(64)),
        *(count - 2**power for power in range(count.bit_length())),
    }
    return sorted(low + step * each for each in near if 0 <= each < count)


def _least_fitting(scope: Scope, name: str, numbers: Iterable[int], fits: Callable[[Values], bool]) -> int:
    """Of one root, with the others as they are at hand."""
    hints = scope.hints
    candidates = [number for number in numbers if is_possible(scope, {**hints, name: number})]
    return [*candidates, hints[name]][bisect_left(candidates, True, key=lambda number: fits({**hints, name: number}))]


def _holds(scope: Scope, values: Values, fits: Callable[[Values], bool]) -> bool:
    return values == scope.hints or (is_possible(scope, values) and fits(values))
