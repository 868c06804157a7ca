"""Arguments of an operator as something to compare and to hash.

    frozen(([x, 2], {"dim": 1.0}), of)     ((of(x), of(2)), (("dim", of(1.0)),))

What stands for a leaf is for the caller to say: a layout, an identity, or `plain(leaf)`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

NESTED = (list, tuple, dict)


def frozen(data: Any, of: Callable[[Any], Any]) -> Any:
    if isinstance(data, (list, tuple)):
        return tuple([frozen(item, of) if isinstance(item, NESTED) else of(item) for item in data])
    if isinstance(data, dict):
        return tuple([(name, frozen(item, of)) for name, item in data.items()])
    return of(data)


def plain(leaf: Any) -> Any:
    """`1`, `1.0` and `True` are others, and NaN is itself."""
    return type(leaf), repr(leaf) if isinstance(leaf, float) else leaf
