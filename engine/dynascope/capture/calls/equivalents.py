"""Python code for what CPython and its C builtins do, to be read like the user's own.

A break inside such code is a break at the call of it.
"""

from __future__ import annotations

import collections
import itertools
from typing import TYPE_CHECKING, Any

from dynascope.capture.values import Value

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine


def enter(machine: Machine, function: Any, arguments: list[Value], keywords: dict[str, Value] | None = None) -> Any:
    return machine.call(machine.outside.fixed(function, function.__name__), arguments, keywords or {})


def construct(cls, /, *arguments, **keywords):
    instance = cls.__new__(cls, *arguments, **keywords)
    if isinstance(instance, cls):
        check_nothing(type(instance).__init__(instance, *arguments, **keywords))
    return instance


def construct_by_alias(alias, cls, /, *arguments, **keywords):
    instance = cls(*arguments, **keywords)
    try:
        instance.__orig_class__ = alias
    except (AttributeError, TypeError):
        return instance
    return instance


def check_nothing(made):
    if made is not None:
        raise TypeError(f"__init__() should return None, not {type(made).__name__!r}")


def construct_exception(cls, /, *arguments, **keywords):
    instance = BaseException.__new__(cls, *arguments)
    check_nothing(instance.__init__(*arguments, **keywords))
    return instance


def map_(function, iterable, /, *iterables):
    for arguments in zip(iterable, *iterables):  # noqa: B905 (the builtin's own meaning)
        yield function(*arguments)


def map_one(function, iterable, /):
    for item in iterable:
        yield function(item)


def filter_(function, iterable, /):
    for item in iterable:
        if item if function is None else function(item):
            yield item


def any_(iterable, /):
    for item in iterable:
        if item:
            return True
    return False


def all_(iterable, /):
    for item in iterable:
        if not item:
            return False
    return True


def sum_(iterable, /, start=0):
    # Classes by their names, which builtins are: a tuple of the module's would be guarded, item by item.
    items = iter(iterable)
    if isinstance(start, str):
        raise TypeError("sum() can't sum strings [use ''.join(seq) instead]")
    if isinstance(start, bytes):
        raise TypeError("sum() can't sum bytes [use b''.join(seq) instead]")
    numbers = []
    total = start
    if type(start) in (int, float, bool):
        for item in items:
            if type(item) not in (int, float, bool):
                total = sum_of_numbers(numbers, start) + item
                break
            numbers.append(item)
        else:
            return sum_of_numbers(numbers, start)
    for item in items:
        total = total + item
    return total


def sum_of_numbers(numbers, start):
    """What `sum` gives for numbers alone. Since CPython 3.12 it makes up for what adding floats rounds off."""
    return sum(numbers, start)


def smallest(items, key, /):
    best, best_key = items[0], key(items[0])
    for item in items[1:]:
        item_key = key(item)
        if item_key < best_key:
            best, best_key = item, item_key
    return best


def largest(items, key, /):
    best, best_key = items[0], key(items[0])
    for item in items[1:]:
        item_key = key(item)
        if item_key > best_key:
            best, best_key = item, item_key
    return best


def reduce_(function, iterable, /, *initial):
    try:
        iterator = iter(iterable)
    except TypeError:
        raise TypeError("reduce() arg 2 must support iteration") from None
    if initial:
        total = initial[0]
    else:
        try:
            total = next(iterator)
        except StopIteration:
            raise TypeError("reduce() of empty iterable with no initial value") from None
    for item in iterator:
        total = function(total, item)
    return total


def accumulate_(iterable, function=lambda a, b: a + b, *, initial=None):
    iterator = iter(iterable)
    if initial is None:
        try:
            total = next(iterator)
        except StopIteration:
            return
    else:
        total = initial
    yield total
    for item in iterator:
        total = function(total, item)
        yield total


def chain_(*iterables):
    for iterable in iterables:
        yield from iterable


def chain_from_iterable(iterables, /):
    for iterable in iterables:
        yield from iterable


def starmap_(function, iterable, /):
    for arguments in iterable:
        yield function(*arguments)


def takewhile_(predicate, iterable, /):
    for item in iterable:
        if not predicate(item):
            return
        yield item


def dropwhile_(predicate, iterable, /):
    dropping = True
    for item in iterable:
        if dropping and predicate(item):
            continue
        dropping = False
        yield item


def islice_(iterator, start, stop, step, /):
    """Takes from the iterator what comes before the last item that it gives, and of a known stop what comes before that."""
    at, wanted = 0, start
    while stop is None or at < stop:
        try:
            item = next(iterator)
        except StopIteration:
            return
        at += 1
        if at > wanted:
            wanted += step
            yield item
            if stop is not None and wanted >= stop:
                break
    while stop is not None and at < stop:
        try:
            next(iterator)
        except StopIteration:
            return
        at += 1


def list_extend_by(items, iterable, /):
    for item in iterable:
        items.append(item)


def list_extend_by_rest(items, iterator, /):
    while True:
        try:
            item = next(iterator)
        except StopIteration:
            return
        items.append(item)


def set_update_by(items, /, *iterables):
    for iterable in iterables:
        for item in iterable:
            items.add(item)


def dict_update_by(dictionary, other, /):
    if hasattr(other, "keys"):
        for key in other.keys():  # noqa: SIM118 (what `update` itself calls)
            dictionary[key] = other[key]
        return
    for at, pair in enumerate(other):
        key, item = as_pair(pair, at)
        dictionary[key] = item


def update_of(cls: type) -> Any:
    return ordered_update_by if issubclass(cls, collections.OrderedDict) else dict_update_by


def ordered_update_by(dictionary, other, /):
    """`OrderedDict`'s, which takes pairs apart by itself."""
    if hasattr(other, "keys"):
        dict_update_by(dictionary, other)
        return
    for pair in other:
        parts = list(pair)
        if len(parts) > 2:
            raise ValueError("too many values to unpack (expected 2)")
        if len(parts) < 2:
            raise ValueError(f"need more than {len(parts)} value{'' if parts else 's'} to unpack")
        dictionary[parts[0]] = parts[1]


def as_pair(pair, at):
    try:
        parts = list(pair)
    except TypeError:
        raise TypeError(f"cannot convert dictionary update sequence element #{at} to a sequence") from None
    if len(parts) != 2:
        raise ValueError(f"dictionary update sequence element #{at} has length {len(parts)}; 2 is required")
    return parts


def item_getter(thing, key, /, *keys):
    return (thing[key], *[thing[each] for each in keys]) if keys else thing[key]


def attribute_getter(thing, name, /, *names):
    if names:
        return tuple([attribute_getter(thing, each) for each in (name, *names)])
    for part in name.split("."):
        thing = getattr(thing, part)
    return thing


def method_caller(thing, name, /, *arguments):
    return getattr(thing, name)(*arguments)


def cached_property_(found, instance, owner=None):
    """`functools.cached_property.__get__`, without the lock that it takes before Python 3.12: who else computes it meanwhile is no
    concern of the values."""
    if instance is None:
        return found
    name = found.attrname
    if name is None:
        raise TypeError("Cannot use cached_property instance without calling __set_name__ on it.")
    try:
        kept = instance.__dict__
    except AttributeError:
        where = type(instance).__name__
        raise TypeError(f"No '__dict__' attribute on {where!r} instance to cache {name!r} property.") from None
    if name not in kept:
        kept[name] = found.func(instance)
    return kept[name]


def pairwise_(iterable, /):
    iterator = iter(iterable)
    try:
        before = next(iterator)
    except StopIteration:
        return
    for item in iterator:
        yield before, item
        before = item


def zip_longest_(*sources, fillvalue=None):
    iterators, running = list(sources), len(sources)
    while running:
        row = []
        for at, iterator in enumerate(iterators):
            value = fillvalue
            if iterator is not None:
                try:
                    value = next(iterator)
                except StopIteration:
                    iterators[at] = None
                    running -= 1
                    if not running:
                        return
            row.append(value)
        yield tuple(row)


def compress_(data, selectors):
    for item, selector in zip(data, selectors):  # noqa: B905 (the builtin's own meaning)
        if selector:
            yield item


def filter_false(function, iterable, /):
    for item in iterable:
        if not (item if function is None else function(item)):
            yield item


def groupby_(iterable, key=None):
    items = iter(iterable)
    waiting = []
    turns = []

    def take():
        for item in items:
            waiting.append((item if key is None else key(item), item))
            return True
        return False

    def group(turn, shared):
        while turn == len(turns) and (waiting or take()) and waiting[0][0] == shared:
            yield waiting.pop()[1]

    while waiting or take():
        shared = waiting[0][0]
        turns.append(shared)
        yield shared, group(len(turns), shared)
        while (waiting or take()) and waiting[0][0] == shared:
            waiting.pop()


def cycle_(iterable, /):
    saved = []
    for item in iterable:
        yield item
        saved.append(item)
    while saved:
        for item in saved:
            yield item


def repeat_(item, /):
    while True:
        yield item


def called_until(function, sentinel, /):
    while True:
        try:
            item = function()
        except StopIteration:
            return
        if sentinel is item or sentinel == item:
            return
        yield item


def batched_(iterable, n, *, strict=False):
    items = []
    for item in iterable:
        items.append(item)
        if len(items) == n:
            yield tuple(items)
            items = []
    if items:
        if strict:
            raise ValueError("batched(): incomplete batch")
        yield tuple(items)


def tees_of(iterable, n=2, /):
    iterator = iter(iterable)
    link = [None, None]
    return tuple([tee_(iterator, link) for _ in range(n)])


def tee_(iterator, link, /):
    """One of several that share what the iterator gave: each item is kept in a link that leads to the next."""
    while True:
        if link[1] is None:
            try:
                item = next(iterator)
            except StopIteration:
                return
            if link[1] is None:
                link[0], link[1] = item, [None, None]
        item, link = link
        yield item


def reversed_(sequence, at, /):
    """Of what says its length (`at`) and gives its items by number, which is all that the builtin asks for."""
    while at > 0:
        at -= 1
        try:
            item = sequence[at]
        except (IndexError, StopIteration):
            return
        yield item


def count_elements(mapping, iterable, /):
    for item in iterable:
        mapping[item] = mapping.get(item, 0) + 1


def view_is_disjoint(view, other, /):
    """Goes through the shorter one, if the other is a set or a view as well, and asks the longer: no value of `items()` is hashed."""
    if view is other:
        return not len(view)
    if type(other) in (set, frozenset) or isinstance(other, (type({}.keys()), type({}.items()))):
        if len(other) > len(view):
            view, other = other, view
    for item in other:
        if item in view:
            return False
    return True


def add_quotient(tensor, one, other, value):
    return tensor.add_(value * one / other)


def add_product(tensor, one, other, value):
    return tensor.add_(value * one * other)


def add_quotients(tensors, ones, others, scalars):
    for at, tensor in enumerate(tensors):
        add_quotient(tensor, ones[at], others[at], scalars[at])


def add_products(tensors, ones, others, scalars):
    for at, tensor in enumerate(tensors):
        add_product(tensor, ones[at], others[at], scalars[at])


STAND_FOR = {
    pairwise_.__code__: itertools.pairwise,
    zip_longest_.__code__: itertools.zip_longest,
    compress_.__code__: itertools.compress,
    filter_false.__code__: itertools.filterfalse,
    cycle_.__code__: itertools.cycle,
    groupby_.__code__: itertools.groupby,
    islice_.__code__: itertools.islice,
    repeat_.__code__: itertools.repeat,
    called_until.__code__: type(iter(int, 1)),
    tee_.__code__: type(itertools.tee(())[0]),
    reversed_.__code__: reversed,
    map_.__code__: map,
    map_one.__code__: map,
    filter_.__code__: filter,
    accumulate_.__code__: itertools.accumulate,
    chain_.__code__: itertools.chain,
    chain_from_iterable.__code__: itertools.chain,
    starmap_.__code__: itertools.starmap,
    takewhile_.__code__: itertools.takewhile,
    dropwhile_.__code__: itertools.dropwhile,
}
"""Generators that stand for an iterator in C: the class that the program sees."""
if hasattr(itertools, "batched"):
    STAND_FOR[batched_.__code__] = itertools.batched
