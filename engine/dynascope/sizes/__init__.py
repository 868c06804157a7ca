"""Sizes and numbers that vary from call to call, as expressions over named roots. The ground floor: no torch.

    scope = Scope()
    n = scope.root("n", hint=7, low=2)       # `n` was 7 when we looked; it is at least 2 whenever this serves
    2 * n + n == 3 * n                        # True, and nothing was assumed
    n // 2 * 2 == n                           # False, because of the hint: scope.log now holds `n // 2 * 2 != n`

A constant is a plain `int`. What cannot be said as an expression (`torch.empty(n)` in C) asks for the number itself: that
fixes it (`n == 7` is logged), so that a leak costs generality and never an answer.
"""

from dynascope.sizes.calls import is_found
from dynascope.sizes.domains import may_lack_an_answer, rely_on_domain
from dynascope.sizes.expression import Expression, Operation, Polynomial, Root, evaluate, substitute
from dynascope.sizes.relations import Relation, RelationLog
from dynascope.sizes.size import (
    Scope,
    Size,
    apply,
    fix,
    hint_of,
    hints_of,
    is_function_of_numbers,
    is_size,
    kind_of,
    roots_of,
)
from dynascope.sizes.solved import solved
from dynascope.sizes.structure import (
    blocks_of,
    ceil_divide,
    degree_of,
    divided,
    estimated,
    is_at_hand,
    is_constant,
    is_multiple,
    is_printed,
    is_relied_to_be,
    is_telling,
    known,
    known_by_now,
    leaves,
    nominal,
    nominal_product,
    order_of,
    product,
    same,
)

__all__ = [
    "Expression",
    "Operation",
    "Polynomial",
    "Relation",
    "RelationLog",
    "Root",
    "Scope",
    "Size",
    "apply",
    "blocks_of",
    "ceil_divide",
    "degree_of",
    "divided",
    "estimated",
    "evaluate",
    "fix",
    "hint_of",
    "hints_of",
    "is_function_of_numbers",
    "is_at_hand",
    "is_constant",
    "is_found",
    "is_multiple",
    "is_printed",
    "is_relied_to_be",
    "is_size",
    "is_telling",
    "kind_of",
    "known",
    "known_by_now",
    "leaves",
    "may_lack_an_answer",
    "nominal",
    "nominal_product",
    "order_of",
    "product",
    "rely_on_domain",
    "roots_of",
    "same",
    "solved",
    "substitute",
]
