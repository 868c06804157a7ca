"""Whether a known callable takes these arguments at all. Where it does not, Python makes the call, and words the error.

accepts(isinstance, 2, ("invalid",))   ->  False
"""

from __future__ import annotations

import collections
import functools
import inspect
import itertools
import types
from typing import Any

MANY = 1 << 30
# What CPython tells no signature of: the fewest positional arguments, the most, and names (None: any).
Limits = tuple[int, int, frozenset[str] | None]


def accepts(thing: Any, count: int, names: tuple[str, ...]) -> bool:
    return _accepts(thing, count, names)


@functools.lru_cache(maxsize=4096)
def _accepts(thing: Any, count: int, names: tuple[str, ...]) -> bool:
    limits = LIMITS.get(thing)
    if limits is None and isinstance(thing, types.MethodDescriptorType):
        limits = METHODS.get(thing.__name__)
    if limits is not None:
        fewest, most, known = limits
        return fewest <= count <= most and (known is None or known.issuperset(names))
    try:
        signature = inspect.signature(thing)
    except (ValueError, TypeError):
        return True
    try:
        signature.bind(*[None] * count, **dict.fromkeys(names))
    except TypeError:
        return False
    return True


def _limits(fewest: int, most: int, names: str = "") -> Limits:
    return fewest, most, frozenset(names.split())


LIMITS: dict[Any, Limits] = {
    getattr: _limits(2, 3),
    iter: _limits(1, 2),
    next: _limits(1, 2),
    functools.reduce: _limits(2, 3),
    min: _limits(1, MANY, "key default"),
    max: _limits(1, MANY, "key default"),
    zip: _limits(0, MANY, "strict"),
    map: _limits(2, MANY),
    filter: _limits(2, 2),
    slice: _limits(1, 3),
    range: _limits(1, 3),
    type: (1, 3, None),
    super: _limits(0, 2),
    int: _limits(0, 2, "base"),
    bool: _limits(0, 1),
    str: _limits(0, 3, "object encoding errors"),
    set: _limits(0, 1),
    frozenset: _limits(0, 1),
    dict: (0, 1, None),
    collections.OrderedDict: (0, 1, None),
    collections.defaultdict: (0, 2, None),
    collections.deque: _limits(0, 2, "iterable maxlen"),
    functools.partial: (1, MANY, None),
    types.CellType: _limits(0, 1),
    itertools.islice: _limits(2, 4),
    itertools.product: _limits(0, MANY, "repeat"),
    itertools.repeat: _limits(1, 2, "object times"),
    itertools.zip_longest: _limits(0, MANY, "fillvalue"),
    itertools.chain: _limits(0, MANY),
}
# Methods by name, the object itself counted.
METHODS: dict[str, Limits] = {
    **{name: _limits(1, 1) for name in ("keys", "values", "items", "copy", "clear", "close")},
    **{name: _limits(2, 2) for name in ("add", "discard", "issubset", "issuperset", "symmetric_difference")},
    **{name: _limits(1, MANY) for name in ("union", "intersection", "difference")},
    **{name: _limits(2, 2) for name in ("__getitem__", "__contains__", "send")},
}
LIMITS |= {
    dict.update: (1, 2, None),
    collections.OrderedDict.update: (1, 2, None),
    set.update: _limits(1, MANY),
    dict.pop: _limits(2, 3),
    collections.OrderedDict.pop: _limits(2, 3, "default"),
    set.remove: _limits(2, 2),
    set.pop: _limits(1, 1),
}
