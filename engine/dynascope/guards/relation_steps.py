"""Relations between ints as the steps that the C hook runs (frame/relations.h): nothing of Python's is made or called.

    x.size(0) % 8 == 0     ->  (PUSH_SIZE, x, 0), (PUSH, 0, 8), (MODULO, 0, 0), (PUSH, 0, 0), (EQUAL, 0, 0)

What has no step (floats, functions) is left to Python: then all of an entry's relations are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from dynascope.guards.relation_guard import RelationHolds, read_of
from dynascope.guards.source import Source
from dynascope.sizes.expression import Operation, Polynomial, Root
from dynascope.sizes.relations import NEGATED

Step = tuple[int, int, int]
PUSH, PUSH_SIZE, PUSH_STRIDE, PUSH_NUMBER, ADD, MULTIPLY = range(6)
OPERATIONS = {"//": 6, "%": 7, "min": 8, "max": 9}
COMPARISONS = {"==": 10, "!=": 11, "<": 12, "<=": 13, ">": 14, ">=": 15}
DEEPEST = 32
LARGEST = 2**62


class _NoSteps(Exception):
    pass


def relation_steps(
    guards: Sequence[tuple[RelationHolds, Sequence[Source]]], place: Callable[[Source], int]
) -> tuple[Step, ...] | None:
    """`place(source)` is the number under which the hook finds a value. None where a relation has no steps."""
    steps: list[Step] = []
    try:
        for predicate, sources in guards:
            places = dict(zip(predicate.names, sources, strict=True))
            steps += _relation(predicate, lambda root, places=places: _load(places[root.name], place))
    except _NoSteps:
        return None
    return tuple(steps) if _depth(steps) <= DEEPEST else None


def _relation(predicate: RelationHolds, load: Callable[[Root], Step]) -> Iterator[Step]:
    relation = predicate.relation
    operator = NEGATED.get(relation.operator) if relation.holds_not else relation.operator
    if operator not in COMPARISONS or not all(root.kind is int for root in relation.roots()):
        raise _NoSteps
    yield from _value(relation.left, load)
    yield from _value(relation.right, load)
    yield COMPARISONS[operator], 0, 0


def _load(source: Source, place: Callable[[Source], int]) -> Step:
    base, kind, dimension = read_of(source)
    return {"size": PUSH_SIZE, "stride": PUSH_STRIDE, None: PUSH_NUMBER}[kind], place(base), dimension


def _value(expression: Any, load: Callable[[Root], Step]) -> Iterator[Step]:
    if isinstance(expression, Root):
        yield load(expression)
    elif isinstance(expression, Polynomial):
        for at, (monomial, coefficient) in enumerate(expression.terms):
            yield _number(coefficient)
            for atom, exponent in monomial:
                for _ in range(exponent):
                    yield from _value(atom, load)
                    yield MULTIPLY, 0, 0
            if at:
                yield ADD, 0, 0
    elif isinstance(expression, Operation) and expression.kind is int and expression.name in OPERATIONS:
        first, *others = expression.arguments
        yield from _value(first, load)
        for other in others:
            yield from _value(other, load)
            yield OPERATIONS[expression.name], 0, 0
    else:
        yield _number(expression)


def _number(value: Any) -> Step:
    if type(value) is not int or abs(value) > LARGEST:
        raise _NoSteps
    return PUSH, 0, value


def _depth(steps: Sequence[Step]) -> int:
    depth = deepest = 0
    for step, _, _ in steps:
        depth += 1 if step <= PUSH_NUMBER else -1 if step < COMPARISONS["=="] else -2
        deepest = max(deepest, depth)
    return deepest
