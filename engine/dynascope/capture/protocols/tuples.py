"""Which classes of tuples are tuples with a name: their operators are a tuple's own, and an instance is its items.

is_plain(Point)      True for `namedtuple("Point", "x y")`, methods, properties and a text of its own included
is_plain(Pair)       False where the class has an operator, `__iter__`, `__len__` or attribute access of its own

An instance of the others is an object like any other: Python's protocols ask its class.
"""

from __future__ import annotations

import functools
import types

from dynascope.capture.protocols.classes import lookup

OWN = ("getitem", "iter", "len", "contains", "bool", "hash", "eq", "ne", "lt", "le", "gt", "ge", "add", "radd", "iadd")
OWN += ("mul", "rmul", "imul", "getattribute", "setattr", "index", "reversed", "init", "del")
OWN += ("sub", "mod", "matmul", "and", "or", "xor", "truediv", "floordiv", "pow", "call", "length_hint")


@functools.lru_cache(maxsize=1024)
def is_plain(cls: type) -> bool:
    return not any(is_users(lookup(cls, f"__{name}__")) for name in OWN)


def is_users(entry: object) -> bool:
    """Written in Python, and not by `collections.namedtuple` itself."""
    return isinstance(entry, types.FunctionType) and entry.__module__ != "collections"


def has_state(instance: tuple) -> bool:
    """Whether attributes were set on this one instance."""
    return bool(getattr(instance, "__dict__", None))
