"""What can be told of numbers from their expressions alone, and from what is relied on by now. But for `estimated` no answer depends on a
hint, and nothing is logged.

    same(2 * n, n + n)              True
    known("<", n, 1)                False where n is at least 2; None where only the hint would tell
    divided(64 * n + 3, 64)         (n, 3)
    nominal(64 * n)                 16384: an estimate for cost models, the same whatever the hint is
    estimated(64 * n)               64 times the hint, where that tells something

The index algebra and most cost models ask these, so that what they make of a graph does not depend on the sizes it was seen with.
Every function takes and gives plain ints too, and is fast on them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from functools import lru_cache
from math import prod
from typing import Any

from dynascope.sizes import expression as exact
from dynascope.sizes.expression import Operation, Polynomial, Root, evaluate
from dynascope.sizes.relations import COMPARISONS, normal
from dynascope.sizes.size import Scope, Size, by_bounds, expression_of, relation_of, roots_of

NOMINAL = 256
"""What a root counts in an estimate: batches are smaller, sequences longer."""
LEAST_TELLING = 16
"""A batch or length that varies and is smaller may be a first try."""


def same(left: Any, right: Any) -> bool:
    """Whether both are one number by algebra, or sequences of such. Constants are compared as they are; a Size is never a
    constant."""
    if left.__class__ is Size:
        return left is right or (right.__class__ is Size and left.expression == right.expression)
    if isinstance(left, (tuple, list)):
        if len(left) != len(right):
            return False
        pairs = zip(left, right, strict=True)  # most are plain ints: these are not worth a call
        return all(a == b if a.__class__ is int and b.__class__ is int else same(a, b) for a, b in pairs)
    return right.__class__ is not Size and left == right


def is_constant(value: Any, number: int) -> bool:
    """Whether it is this very constant."""
    return value.__class__ is not Size and value == number


def known(name: str, left: Any, right: Any) -> bool | None:
    """The answer of a comparison, where algebra and bounds tell it."""
    if left.__class__ is not Size and right.__class__ is not Size:
        return COMPARISONS[name](left, right)
    if left.__class__ is Size and right.__class__ is int and left.expression.__class__ is Polynomial:
        if (answer := by_bounds(name, left.expression.bounds, right)) is not None:
            return answer
    name, first, second = normal(name, expression_of(left), expression_of(right))
    if isinstance(first, int) and isinstance(second, int):
        return COMPARISONS[name](first, second)
    if isinstance(first, Polynomial) and isinstance(second, int):
        answer = by_bounds(name, first.bounds, second)
        return by_bounds(name, first.closer_bounds, second) if answer is None else answer
    return None


def is_relied_to_be(value: Any, number: int) -> bool:
    """Whether it is this constant, or a size that everything relies on to be it: `n - (n + 1) // 2`, taken for a 1 to be repeated."""
    if value.__class__ is not Size:
        return value == number
    if value.hint != number and is_at_hand(value):
        return False  # what is relied on holds of what is at hand: most are told apart by that
    answer = known("==", value, number)
    return bool(by_relations(value.scope, "==", value, number) if answer is None else answer)


def known_by_now(name: str, left: Any, right: Any) -> bool | None:
    """The same, also by what was relied on so far of numbers that only the run of a graph knows."""
    answer = known(name, left, right)
    scope = next((side.scope for side in (left, right) if side.__class__ is Size), None)
    if answer is not None or scope is None or not scope.late:
        return answer
    return by_relations(scope, name, left, right)


def by_relations(scope: Scope, name: str, left: Any, right: Any) -> bool | None:
    """The answer that what was relied on so far gives, where it tells."""
    relation = relation_of(name, left, right)
    if not isinstance(relation.left, Polynomial) or not isinstance(relation.right, int):
        return None
    return by_bounds(relation.operator, scope.relied_bounds(relation.left), relation.right)


def divided(dividend: Any, divisor: Any) -> tuple[Any, Any]:
    """(whole, rest) with dividend = divisor * whole + rest, where rest has what the divisor does not divide exactly.

    Of constants rest is the remainder; of expressions it may be anything that is left.
    """
    if dividend.__class__ is not Size and divisor.__class__ is not Size:
        return divmod(dividend, divisor)
    scope = (dividend if dividend.__class__ is Size else divisor).scope
    whole, rest = exact.divided(expression_of(dividend), expression_of(divisor))
    return scope.size(whole), scope.size(rest)


def is_multiple(value: Any, divisor: Any) -> bool:
    """Whether it is a multiple for every value of the roots."""
    return is_constant(divided(value, divisor)[1], 0)


def ceil_divide(dividend: Any, divisor: Any) -> Any:
    """The least whole number of `divisor`s that is not less."""
    if dividend.__class__ is not Size and divisor.__class__ is not Size:
        return -(-dividend // divisor)
    return (dividend + (divisor - 1)) // divisor


def blocks_of(count: Any, block: int) -> Any:
    """How many blocks hold `count` things; a count is never negative, even where its expression does not tell."""
    if count.__class__ is not Size:
        return -(-count // block)
    whole, rest = divided(count, block)
    return whole if is_constant(rest, 0) else count.apply("blocks", count, block)


def product(values: Iterable[Any]) -> Any:
    constant, varying = 1, None
    for value in values:
        if value.__class__ is not Size:
            constant = constant * value
        else:
            varying = value if varying is None else varying * value
    return constant if varying is None else varying * constant


def order_of(value: Any) -> tuple[int, int, str]:
    """A key that sorts the larger first, as far as expressions tell: higher degrees, then larger factors."""
    return value.expression.order if value.__class__ is Size else (0, -value, "")


def degree_of(value: Any) -> int:
    """How many sizes are multiplied in its largest term: 0 of a constant, 1 of a length, 2 of an area."""
    return value.expression.degree if value.__class__ is Size else 0


def nominal(value: Any) -> Any:
    """An estimate that does not depend on the hint."""
    return _nominal(value.expression) if value.__class__ is Size else value


@lru_cache(maxsize=4096)
def _nominal(expression: exact.Expression) -> Any:
    try:
        return evaluate(expression, _NOMINAL_VALUES)
    except (ArithmeticError, ValueError):
        return NOMINAL


def estimated(value: Any) -> Any:
    """An estimate by the sizes at hand, but for those that only the run knows, and small ones that are known to vary: a first batch of 5
    says nothing of those that come, while a size of 3 that is to vary as all are (`Scope.assumed`) counts colours more often than not."""
    if value.__class__ is not Size:
        return value
    scope = value.scope
    usual = {name: hint if _tells(scope, name, hint) else NOMINAL for name, hint in scope.hints.items()}
    try:
        return evaluate(value.expression, usual)
    except (ArithmeticError, ValueError):
        return NOMINAL


def _tells(scope: Scope, name: str, hint: int | float) -> bool:
    return name not in scope.late and (hint >= LEAST_TELLING or name in scope.assumed)


def is_telling(value: Any) -> bool:
    """Whether what it is now says something of the calls to come."""
    return value.__class__ is not Size or all(_tells(value.scope, root.name, value.scope.hints[root.name]) for root in roots_of([value]))


def is_at_hand(value: Any) -> bool:
    """Whether it has been seen: no part of it is known only when it runs."""
    if value.__class__ is not Size or not value.scope.late:
        return True
    return value.scope.late.isdisjoint(root.name for root in roots_of([value]))


def nominal_product(values: Iterable[Any]) -> Any:
    """The estimate of a product, which is the product of the estimates."""
    return prod(map(nominal, values))


_NOMINAL_VALUES: defaultdict[str, int] = defaultdict(lambda: NOMINAL)


def leaves(expression: Any) -> tuple[Root | Operation, ...]:
    """What an expression's text names: the roots, and the operations that only Python computes. Each once, in order.

    Generated code computes sums, products, and quotients and remainders of what is never negative: every language agrees on
    those. `blocks` and shares are quotients too. Other operations reach it as numbers of their own.
    """
    if isinstance(expression, Polynomial):
        atoms = [atom for monomial, _ in expression.terms for atom, _ in monomial]
        return tuple(dict.fromkeys(leaf for atom in atoms for leaf in leaves(atom)))
    if isinstance(expression, Operation) and is_printed(expression):
        return tuple(dict.fromkeys(leaf for argument in expression.arguments for leaf in leaves(argument)))
    return (expression,) if isinstance(expression, (Root, Operation)) else ()


def is_printed(operation: Operation) -> bool:
    """Whether generated code computes it by itself."""
    if operation.name in ("blocks", "share"):
        return True
    if operation.kind is not int or operation.name not in ("//", "%"):
        return False
    dividend, divisor = operation.arguments
    integers = all(exact.kind_of_expression(argument) is int for argument in operation.arguments)
    return integers and exact.bounds_of(dividend)[0] >= 0 and exact.bounds_of(divisor)[0] >= 1
