"""Iterators of `itertools` and builtins that were made inside: the call that makes one which gives what this one still gives.

    itertools.islice(it, 1, 7, 2), one taken      itertools.islice(it, 1, 5, 2)
    itertools.chain([x], [y]), one taken          itertools.chain(iterator of [x], [y])
    itertools.accumulate(it), total so far 5      itertools.accumulate(it, None, initial=5), one taken

Capture reads Python code in their place (`calls/equivalents.py`): the frame of that says where each is.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import field
from types import CodeType

from dynascope.capture.calls import equivalents
from dynascope.capture.values import (
    NONE,
    CellValue,
    ConstantValue,
    CountValue,
    GeneratorValue,
    IteratorValue,
    ListValue,
    TupleValue,
    TurnValue,
    Value,
    ZipValue,
)
from dynascope.dataclass import dataclass

ITERATORS = (IteratorValue, TurnValue, ZipValue, CountValue, GeneratorValue)


@dataclass(frozen=True, slots=True)
class Remade:
    function: Value
    arguments: tuple[Value, ...]
    keywords: dict[str, Value] = field(default_factory=dict)
    taken: int = 0


def remade_iterator(generator: GeneratorValue) -> Remade | None:
    rule = RULES.get(generator.frame.code)
    return None if rule is None else rule(generator)


def of(function: Callable[..., object], *arguments: Value, taken: int = 0, **keywords: Value) -> Remade:
    return Remade(ConstantValue(function), arguments, keywords, taken)


def argument_of(generator: GeneratorValue, name: str) -> Value:
    held = generator.given[name]
    return held.content if isinstance(held, CellValue) else held


def iterators_on_stack(generator: GeneratorValue) -> list[Value]:
    """What its loops go over, the outermost first."""
    return [value for value in generator.frame.stack if isinstance(value, ITERATORS)]


def _by_function(cls: type, function: str, iterable: str) -> Callable[[GeneratorValue], Remade | None]:
    def rule(generator: GeneratorValue) -> Remade | None:
        left = iterators_on_stack(generator) if generator.started else [argument_of(generator, iterable)]
        return of(cls, argument_of(generator, function), left[0]) if left else None

    return rule


def _islice(generator: GeneratorValue) -> Remade | None:
    slots = generator.frame.slots
    if not generator.started:
        return of(itertools.islice, *(argument_of(generator, name) for name in ("iterator", "start", "stop", "step")))
    at, wanted, stop = (slots[name].value for name in ("at", "wanted", "stop"))
    least = wanted if stop is None else min(wanted, stop)
    bounds = (least - at, None if stop is None else stop - at)
    return of(itertools.islice, slots["iterator"], *map(ConstantValue, bounds), slots["step"])


def _chain(generator: GeneratorValue) -> Remade | None:
    if not generator.started:
        return of(itertools.chain, *argument_of(generator, "iterables").items)
    found = iterators_on_stack(generator)
    if len(found) != 2 or not isinstance(found[0], IteratorValue):
        return None
    return of(itertools.chain, found[1], *found[0].remaining_source()[found[0].position :])


def _chain_from_iterable(generator: GeneratorValue) -> Remade | None:
    if not generator.started:
        return of(itertools.chain.from_iterable, argument_of(generator, "iterables"))
    found = iterators_on_stack(generator)
    return of(chain_after, found[1], found[0]) if len(found) == 2 else None


def chain_after(iterator: object, iterables: object) -> itertools.chain:
    return itertools.chain.from_iterable(itertools.chain((iterator,), iterables))


def _cycle(generator: GeneratorValue) -> Remade | None:
    if not generator.started:
        return of(itertools.cycle, argument_of(generator, "iterable"))
    saved, found = generator.frame.slots["saved"], iterators_on_stack(generator)
    if not found:
        return None
    if isinstance(found[0], IteratorValue) and found[0].items is saved:
        return of(itertools.cycle, TupleValue(tuple(saved.items)), taken=found[0].position)
    given = (*saved.items, generator.frame.slots["item"])
    return of(cycle_after, TupleValue(given), found[0], taken=len(given))


def cycle_after(given: tuple, iterator: object) -> itertools.cycle:
    return itertools.cycle(itertools.chain(given, iterator))


def _accumulate(generator: GeneratorValue) -> Remade | None:
    function = argument_of(generator, "function")
    function = NONE if function is generator.frame.function.defaults[0] else function
    if not generator.started:
        initial = argument_of(generator, "initial")
        return of(itertools.accumulate, argument_of(generator, "iterable"), function, initial=initial)
    slots = generator.frame.slots
    if slots["total"] is NONE:
        return None
    return of(itertools.accumulate, slots["iterator"], function, initial=slots["total"], taken=1)


def _dropwhile(generator: GeneratorValue) -> Remade | None:
    if not generator.started:
        return of(itertools.dropwhile, argument_of(generator, "predicate"), argument_of(generator, "iterable"))
    left = iterators_on_stack(generator)
    return of(itertools.dropwhile, ConstantValue(never), left[0]) if left else None


def never(item: object) -> bool:
    return False


def _pairwise(generator: GeneratorValue) -> Remade | None:
    if not generator.started:
        return of(itertools.pairwise, argument_of(generator, "iterable"))
    left, before = iterators_on_stack(generator), generator.frame.slots["item"]
    return of(pairs_after, before, left[0]) if left else None


def pairs_after(before: object, iterator: object) -> itertools.pairwise:
    return itertools.pairwise(itertools.chain((before,), iterator))


def _zip_longest(generator: GeneratorValue) -> Remade | None:
    """One that has ended is another one that has."""
    sources = generator.frame.slots["iterators"] if generator.started else argument_of(generator, "sources")
    if not isinstance(sources, (ListValue, TupleValue)):
        return None
    left = (TupleValue(()) if isinstance(each, ConstantValue) and each.value is None else each for each in sources.items)
    return of(itertools.zip_longest, *left, fillvalue=argument_of(generator, "fillvalue"))


def _compress(generator: GeneratorValue) -> Remade | None:
    if not generator.started:
        return of(itertools.compress, argument_of(generator, "data"), argument_of(generator, "selectors"))
    left = iterators_on_stack(generator)
    return of(itertools.compress, *left[0].parts) if left and isinstance(left[0], ZipValue) else None


def _map(generator: GeneratorValue) -> Remade | None:
    function = argument_of(generator, "function")
    if not generator.started:
        rest = argument_of(generator, "iterables").items
        return of(map, function, argument_of(generator, "iterable"), *rest)
    left = iterators_on_stack(generator)
    return of(map, function, *left[0].parts) if left and isinstance(left[0], ZipValue) else None


def _repeat(generator: GeneratorValue) -> Remade | None:
    return of(itertools.repeat, argument_of(generator, "item"))


def _called_until(generator: GeneratorValue) -> Remade | None:
    return of(iter, argument_of(generator, "function"), argument_of(generator, "sentinel"))


RULES: dict[CodeType, Callable[[GeneratorValue], Remade | None]] = {
    equivalents.map_one.__code__: _by_function(map, "function", "iterable"),
    equivalents.filter_.__code__: _by_function(filter, "function", "iterable"),
    equivalents.starmap_.__code__: _by_function(itertools.starmap, "function", "iterable"),
    equivalents.filter_false.__code__: _by_function(itertools.filterfalse, "function", "iterable"),
    equivalents.islice_.__code__: _islice,
    equivalents.chain_.__code__: _chain,
    equivalents.chain_from_iterable.__code__: _chain_from_iterable,
    equivalents.cycle_.__code__: _cycle,
    equivalents.accumulate_.__code__: _accumulate,
    equivalents.takewhile_.__code__: _by_function(itertools.takewhile, "predicate", "iterable"),
    equivalents.dropwhile_.__code__: _dropwhile,
    equivalents.pairwise_.__code__: _pairwise,
    equivalents.zip_longest_.__code__: _zip_longest,
    equivalents.compress_.__code__: _compress,
    equivalents.map_.__code__: _map,
    equivalents.repeat_.__code__: _repeat,
    equivalents.called_until.__code__: _called_until,
}
