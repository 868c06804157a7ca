"""Sizes by what was relied on: one form for what is equal because something relied on it.

    s1 % 16 == 0               s1 // 16 and s1 become q and 16*q, with q = share(s1, 16), of which algebra knows that it is no 0
    s1 - s1 // 2 == s1 // 2    that is s1 % 2 == 0: both halves become q
    s0 == 2*s1                 s0 becomes 2*s1

Algebra alone tells neither that `32 * (s1 // 16)` channels in 32 groups are `2 * s1`, nor that both halves are as long, so that what is
computed of rows of the one and of elements of the other would not meet. What holds for sizes known only when the graph runs is left as it
is: no guard speaks of them. So is what is relied on to be a constant.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from dynascope.sizes.expression import (
    Integer,
    Operation,
    Polynomial,
    Root,
    add,
    floor_divide,
    multiply,
    negate,
    of_atom,
    of_root,
    substitute,
)
from dynascope.sizes.relations import Relation
from dynascope.sizes.size import Scope, Size


def solved(value: Any) -> Any:
    """The size in that form. What was relied on is read when the first is asked for: later relations change none."""
    if value.__class__ is not Size or not isinstance(value.expression, Polynomial):
        return value
    log = value.scope.log
    if log.solutions is None:
        log.solutions = _solutions(value.scope)
    found = log.solutions
    if not found or found.keys().isdisjoint(value.expression.roots):
        return value
    return value.scope.size(_replaced(value.expression, found))


def _solutions(scope: Scope) -> dict[Root, Polynomial]:
    equalities = [difference for relation, _ in scope.log if (difference := _difference(relation)) is not None]
    equalities = [each for each in equalities if not any(root.name in scope.late for root in each.roots)]
    divisors: dict[Root, int] = {}
    for root, divisor in (divided for each in equalities for divided in _divisors(each)):
        divisors[root] = math.lcm(divisors.get(root, 1), divisor)
    found = {root: _counted(root, divisor) for root, divisor in divisors.items()}
    for each in equalities:
        known = _replaced(each, found)
        for root in sorted(each.roots - found.keys(), key=str):
            value = _solved_for(root, known)
            if isinstance(value, Polynomial) and root not in value.roots:
                found = {other: _replaced(form, {root: value}) for other, form in found.items()} | {root: value}
                break
    return found


def _replaced(expression: Integer, found: Mapping[Root, Polynomial]) -> Any:
    return substitute(expression, lambda root: found.get(root, of_root(root)))


def _difference(relation: Relation) -> Polynomial | None:
    """What is relied on to be 0."""
    left, right = relation.left, relation.right
    if relation.operator != "==" or relation.holds_not or not isinstance(left, Polynomial) or not isinstance(right, (Polynomial, int)):
        return None
    difference = add(left, negate(right))
    return difference if isinstance(difference, Polynomial) else None


def _divisors(difference: Polynomial) -> list[tuple[Root, int]]:
    """Roots that are multiples of constants where this is 0."""
    atom = difference.alone
    if isinstance(atom, Operation) and atom.name == "%":
        dividend, divisor = atom.arguments
        if not isinstance(dividend, Polynomial) or not isinstance(divisor, int):
            return []
        ((monomial, factor), *others) = dividend.terms
        divisor //= math.gcd(factor, divisor)
        root, power = monomial[0]
        is_root_times_factor = not others and len(monomial) == power == 1 and isinstance(root, Root)
        return [(root, divisor)] if is_root_times_factor and divisor > 1 else []
    found = []
    for root in difference.roots:
        value = _solved_for(root, difference)
        terms = value.terms if isinstance(value, Polynomial) else ()
        if len(terms) == 1 and terms[0][1] > 1 and len(terms[0][0]) == 1 and terms[0][0][0][1] == 1:
            ((quotient, _),), divisor = terms[0]
            if isinstance(quotient, Operation) and quotient.name == "//" and quotient.arguments[1] == divisor:
                added = add(quotient.arguments[0], negate(of_atom(root)))
                if isinstance(added, int) and 0 <= added < divisor:
                    found.append((root, divisor))
    return found


def _counted(root: Root, divisor: int) -> Polynomial:
    """A multiple as so many of its divisor, of which there is one at least where the root is at least 1."""
    product = multiply(divisor, of_atom(Operation("share", (of_atom(root), divisor))))
    assert isinstance(product, Polynomial)
    return product


def _solved_for(root: Root, difference: Integer) -> Integer | None:
    """What a root is where this is 0; None where that would take a division, or the root stands in other terms as a factor."""
    if not isinstance(difference, Polynomial):
        return None
    alone = ((root, 1),)
    factor = next((c for monomial, c in difference.terms if monomial == alone), 0)
    rest = add(difference, negate(multiply(factor, of_atom(root))))
    if not factor or not isinstance(rest, Polynomial):
        return None
    if any(c % factor or any(atom is root for atom, _ in monomial) for monomial, c in rest.terms):
        return None
    return negate(floor_divide(rest, factor))
