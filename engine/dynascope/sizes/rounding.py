"""What rounding a float that was computed of one integer gives, as an integer that algebra knows.

    math.ceil(n / 16)      (n + 15) // 16
    int(n * 0.75)          (3*n) // 4           both while n <= 2**33

A quotient is the nearest float: up to 2**53 it lies on the side of each integer where the exact one does. A product with a float
of few bits is exact.
"""

from __future__ import annotations

from typing import Any

from dynascope.sizes.expression import Expression, Operation, Polynomial, add, floor_divide

MOST_FACTOR = 2**20
MOST = 2**53 // MOST_FACTOR
"""Up to which all products with such factors are exact: one relation for all."""
UPWARDS = {"math.ceil": True, "math.floor": False, "math.trunc": False, "int": False}


def rounded(name: str, number: Any) -> tuple[Polynomial | int, Polynomial] | None:
    """The integer, and what must be at most `MOST` for that; None where it is not known. Of what may be below 0 nothing is."""
    found = _ratio(number) if name in UPWARDS and isinstance(number, Operation) else None
    if found is None:
        return None
    integer, factor, divisor = found
    if integer.bounds[0] < 0:
        return None
    return floor_divide(add(integer.times(factor), divisor - 1 if UPWARDS[name] else 0), divisor), integer


def _ratio(operation: Operation) -> tuple[Polynomial, int, int] | None:
    """(n, factor, divisor) of `n / 16` or `n * 0.75`."""
    if len(operation.arguments) != 2:
        return None
    left, right = operation.arguments
    if operation.name == "/" and isinstance(left, Polynomial) and _is_whole(right):
        return left, 1, int(right)
    if operation.name == "*":
        integer, factor = (left, right) if isinstance(left, Polynomial) else (right, left)
        if isinstance(integer, Polynomial) and type(factor) is float and 0 < factor < MOST_FACTOR:
            times, divisor = factor.as_integer_ratio()
            return (integer, times, divisor) if times < MOST_FACTOR else None
    return None


def _is_whole(divisor: Expression | int | float) -> bool:
    return type(divisor) in (int, float) and 0 < divisor < MOST_FACTOR and divisor == int(divisor)
