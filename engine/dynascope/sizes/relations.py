"""What was relied on: relations between expressions, each with the line that needed it.

    log.add(Relation("<", n, 512), stack)      `n < 512`, relied on at model.py:12

A relation is true of every call that the compiled code may serve; a guard checks it.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from dynascope.dataclass import dataclass
from dynascope.sizes.expression import Expression, Operation, Polynomial, Root, add, evaluate, negate, roots_in, text


def _is_same_number(left: Any, right: Any) -> bool:
    """Of one type and one value: 0.0 is not -0.0, and NaN is NaN."""
    if type(left) is not type(right):
        return False
    return (left == right and math.copysign(1, left) == math.copysign(1, right)) or (left != left and right != right)


COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "is": _is_same_number,
}
NEGATED = {"==": "!=", "!=": "==", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}


@dataclass(frozen=True)
class Relation:
    """`left operator right`. Of floats the negation is a relation of its own (`not a < b`): NaN answers no to both."""

    operator: str
    left: Expression | int | float
    right: Expression | int | float
    holds_not: bool = False

    def is_true(self, values: Mapping[str, Any]) -> bool:
        answer = COMPARISONS[self.operator](evaluate(self.left, values), evaluate(self.right, values))
        return bool(answer) is not self.holds_not

    def roots(self) -> tuple[Root, ...]:
        return tuple(sorted(roots_in(self.left) | roots_in(self.right), key=str))

    def __str__(self) -> str:
        words = f"{text(self.left)} {self.operator} {text(self.right)}"
        return f"not {words}" if self.holds_not else words


def is_true_of(relation: Relation, values: Mapping[str, Any]) -> bool:
    """A relation that cannot be computed is not."""
    try:
        return relation.is_true(values)
    except (ArithmeticError, ValueError, TypeError):  # no root of -1, and (-1) ** 0.5 is no float
        return False


def divided_by_root(relation: Relation) -> tuple[Expression | int, str]:
    """`24 % n == 0` is (24, "n"), `m % n == 0` is (m, "n"); any other relation (0, "")."""
    if relation.operator == "==" and not relation.holds_not and relation.right == 0 and isinstance(relation.left, Polynomial):
        monomial, _ = relation.left.terms[0]
        atom = monomial[0][0] if len(relation.left.terms) == 1 and len(monomial) == 1 else None
        if isinstance(atom, Operation) and atom.name == "%" and not isinstance(atom.arguments[1], int):
            return atom.arguments[0], str(atom.arguments[1])
    return 0, ""


def most_of_roots(relation: Relation) -> Iterator[tuple[str, int]]:
    """`n <= 24` is ("n", 24), and `m + 2*n <= 32` of numbers that are 0 or more ("m", 32) and ("n", 16); any other relation is nothing."""
    left, right = relation.left, relation.right
    if relation.operator not in ("<", "<=") or relation.holds_not or not isinstance(right, int) or not isinstance(left, Polynomial):
        return
    right -= relation.operator == "<"
    terms = [(monomial[0][0], factor) for monomial, factor in left.terms if len(monomial) == 1 and monomial[0][1] == 1]
    if len(terms) < len(left.terms) or not all(isinstance(atom, Root) and factor > 0 for atom, factor in terms):
        return
    for root, factor in terms:
        others = sum(other.low * times for other, times in terms if other is not root)
        if others > -math.inf:
            yield root.name, int((right - others) // factor)


@lru_cache(maxsize=4096, typed=True)
def normal(name: str, left: Any, right: Any) -> tuple[str, Any, Any]:
    """Integers with everything that varies on the left where that is shorter: `n + 1 < 5` is `n < 4`."""
    if not (isinstance(left, (Polynomial, int)) and isinstance(right, (Polynomial, int))):
        return name, left, right
    difference = add(left, negate(right))
    if isinstance(difference, int):
        return name, difference, 0
    constant = next((c for monomial, c in difference.terms if not monomial), 0)
    return name, add(difference, -constant), -constant


class RelationLog:
    """The relations so far, each once, with the user's stack at its first use. Only what came to nothing is taken back."""

    def __init__(self) -> None:
        self._relations: dict[Relation, Any] = {}
        self.answers: dict[Any, Any] = {}
        """What was computed of sizes meanwhile, all of which relies on these relations: asked again it would add none."""
        self.solutions: dict[Root, Polynomial] | None = None
        """What roots are by these relations (`solved.py`), once somebody has asked."""

    def add(self, relation: Relation, stack: Any) -> None:
        self._relations.setdefault(relation, stack)

    def take_back(self, count: int) -> None:
        """All but the first `count`: nothing was made with the rest."""
        if len(self._relations) > count:
            self.answers.clear()
            self.solutions = None
        for relation in list(self._relations)[count:]:
            del self._relations[relation]

    def __iter__(self) -> Iterator[tuple[Relation, Any]]:
        return iter(self._relations.items())

    def __len__(self) -> int:
        return len(self._relations)

    def __contains__(self, relation: Relation) -> bool:
        return relation in self._relations
