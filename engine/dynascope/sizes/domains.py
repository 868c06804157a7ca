"""Where functions of numbers have an answer, and one of the same type: what a program that calls one relies on, though nobody reads it.

    rely_on_domain("math.sqrt", [n])       n >= 0
    rely_on_domain("**", [n, 0.5])         n >= 0, because below it is a complex number
    rely_on_domain("**", [2, n])           n >= 0 or n < 0, as it is now: an int or a float
    rely_on_domain("int", [x])             x is finite

What bounds tell is not asked. Divisors are relied on by the division itself.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from dynascope.sizes.size import Size, fix, hint_of, kind_of, roots_of

LARGEST = sys.float_info.max
MOST_EXPONENT = 709.0
"""Of e, for a float; a little above it ends."""


def rely_on_domain(name: str, numbers: Sequence[Any]) -> None:
    """Relies on the function named so having an answer of the type that it has for the numbers at hand, for which it has one."""
    rule = RULES.get(name)
    if rule is None or not any(isinstance(number, Size) for number in numbers):
        return
    if not all([*rule(*numbers)]):  # NaN, or where the rule is narrower than the function
        for number in numbers:
            fix(number)


def may_lack_an_answer(name: str, numbers: Sequence[Any]) -> bool:
    """Whether there are numbers that the function named so has no answer for: of the divisor alone more is known."""
    return name in RULES or (name in DIVISIONS and isinstance(numbers[-1], Size))


def _power(base: Any, exponent: Any) -> Iterator[bool]:
    is_varying = isinstance(exponent, Size)
    if is_varying and exponent.kind is int:
        if isinstance(base, Size) or kind_of(base) is int or not base:
            yield base != 0 if exponent < 0 else True
    elif not is_varying and exponent == exponent // 1:
        yield base != 0 if exponent < 0 else True
    elif is_varying and hint_of(base) <= 0:
        yield False
    else:
        yield base > 0 if is_varying or exponent < 0 else base >= 0


def _not_negative(*numbers: Any) -> Iterator[bool]:
    return (number >= 0 for number in numbers)


def _positive(number: Any, *others: Any) -> Iterator[bool]:
    return (each > 0 for each in (number, *others))


def _finite(number: Any, *others: Any) -> Iterable[bool]:
    """Of what follows from integers alone nothing is asked; with a number of digits `round` gives a float."""
    follows_floats = isinstance(number, Size) and any(root.kind is float for root in roots_of([number]))
    return (number <= LARGEST, number >= -LARGEST) if follows_floats and not others and number.kind is float else ()


DIVISIONS = frozenset(["/", "//", "%"])
RULES: dict[str, Callable[..., Iterable[bool]]] = {
    "**": _power,
    "math.pow": _power,
    "<<": lambda number, bits: [bits >= 0],
    ">>": lambda number, bits: [bits >= 0],
    **dict.fromkeys(("math.sqrt", "math.isqrt", "math.factorial", "math.comb", "math.perm"), _not_negative),
    **dict.fromkeys(("math.log", "math.log2", "math.log10", "math.gamma", "math.lgamma"), _positive),
    "math.log1p": lambda number: [number > -1],
    "math.acosh": lambda number: [number >= 1],
    "math.atanh": lambda number: [number < 1, number > -1],
    **dict.fromkeys(("math.asin", "math.acos"), lambda number: [number <= 1, number >= -1]),
    **dict.fromkeys(("math.exp", "math.expm1"), lambda number: [number <= MOST_EXPONENT]),
    **dict.fromkeys(("math.sinh", "math.cosh"), lambda number: [number <= MOST_EXPONENT, number >= -MOST_EXPONENT]),
    **dict.fromkeys(("int", "round", "math.floor", "math.ceil", "math.trunc", "math.sin", "math.cos", "math.tan"), _finite),
    **dict.fromkeys(("math.fmod", "math.remainder"), lambda number, divisor: [divisor != 0, *_finite(number)]),
}
"""By names of `FUNCTIONS`: comparisons, which are relied on where they are made."""
