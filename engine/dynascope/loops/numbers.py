"""Names of the numbers that vary, as generated code knows them.

    s0 of the graph               ->  s0
    int(s0 * 0.5)                 ->  int_s0_0_5_9a31f0      computed by the wrapper, passed to kernels as it is

A name follows from the expression alone, so that wrapper and kernels agree on it.
"""

from __future__ import annotations

import keyword
import re
import zlib
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

from dynascope.loops.index import Extent
from dynascope.sizes import Operation, Polynomial, Root, Size, is_printed, leaves
from dynascope.sizes.expression import Integer, add, plain
from dynascope.sizes.functions import FUNCTIONS

LONGEST = 24


@lru_cache(maxsize=4096)
def number_name(expression: Root | Operation) -> str:
    """The wrapper's variable that holds a root, or an operation that only Python computes."""
    text = str(expression)
    if isinstance(expression, Root) and text.isidentifier() and not keyword.iskeyword(text) and text not in RESERVED:
        return text
    stem = re.sub(r"\W+", "_", text).strip("_")[:LONGEST]
    return f"number_{stem}_{zlib.crc32(text.encode()):x}"


RESERVED = frozenset(name.split(".")[0] for name in FUNCTIONS if name.isidentifier() or "." in name)
"""Functions that texts of expressions call."""
HELPERS = frozenset(("empty", "empty_cuda", "empty_on", "given", "laid_out", "restrided", "view"))
"""What wrappers call, and are given."""


def numbers_in(values: Iterable[Any]) -> dict[str, Root | Operation]:
    """What the texts of some sizes name, by name. Constants name nothing."""
    found: dict[str, Root | Operation] = {}
    for value in values:
        if value.__class__ is Size:
            for leaf in leaves(value.expression):
                found[number_name(leaf)] = leaf
    return found


def size_text(value: Extent, name_of: Callable[[Root | Operation], str], quotient: str, times: str) -> str:
    """A size in a language of generated code, over the names of its leaves."""
    if value.__class__ is not Size:
        return str(value)
    return _text(plain(value.expression), name_of, quotient, times)


def _text(expression: Any, *how: Any) -> str:
    name_of, quotient, times = how
    if isinstance(expression, Polynomial):
        parts = []
        for monomial, coefficient in expression.terms:
            factors = [_grouped(atom, *how) for atom, exponent in monomial for _ in range(exponent)]
            if abs(coefficient) != 1 or not factors:
                factors.insert(0, str(abs(coefficient)))
            sign = ("-" if coefficient < 0 else "") if not parts else (" - " if coefficient < 0 else " + ")
            parts.append(sign + times.join(factors))
        return "".join(parts)
    if isinstance(expression, Operation) and is_printed(expression):
        if expression.name == "blocks":
            count, block = expression.arguments
            return f"({_text(count, *how)} + {block - 1}) {quotient} {block}"
        if (whole := _rounded_up(expression)) is not None:
            part = _grouped(whole, *how)
            return f"{part} - {part} {quotient} 2"
        left, right = (_grouped(argument, *how) for argument in expression.arguments)
        return f"{left} {quotient if expression.name == '//' else '%'} {right}"
    return name_of(expression) if isinstance(expression, (Root, Operation)) else str(expression)


def _rounded_up(quotient: Operation) -> Integer | None:
    """What a half that is rounded up, `(n + 1) // 2`, is half of. Told that n is a multiple of 16, Triton sees that `n - n // 2` is one
    of 8, where it knows nothing of a half of `n + 1`: vectors of the second half hang on it."""
    dividend, divisor = quotient.arguments
    if quotient.name != "//" or divisor != 2 or not isinstance(dividend, Polynomial) or dividend.terms[-1] != ((), 1):
        return None
    return add(dividend, -1)


def _grouped(argument: Any, *how: Any) -> str:
    result = _text(argument, *how)
    return result if result.isidentifier() or result.isdigit() else f"({result})"
