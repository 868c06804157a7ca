"""Sizes as C++ text, over the scalars that a kernel receives.

64*s0 + 3        ->  64 * s0 + 3
(s0 + 1) // 2    ->  (s0 + 1) / 2
"""

from __future__ import annotations

from dynascope.codegen.cpp.names import identifier
from dynascope.loops.index import Extent
from dynascope.loops.numbers import number_name, size_text
from dynascope.sizes import Operation, Root, Size


def text(value: Extent) -> str:
    """The number, as C++ computes it in 64 bits."""
    return size_text(value, _name, "/", " * ")


def factor(value: Extent) -> str:
    """The number as an operand of `*`, `/` or `%`."""
    result = text(value)
    return f"({result})" if value.__class__ is Size and not result.isidentifier() else result


def _name(leaf: Root | Operation) -> str:
    return identifier(number_name(leaf))
