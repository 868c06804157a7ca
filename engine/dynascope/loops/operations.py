"""The elementwise scalar operations: what each takes, makes and costs. A code generator has a rule for each of them.

    TABLE["exp"]  ->  ScalarOperation("exp", arity=1, kinds=FLOAT, result="same", cost=8)

Meaning, where the name alone leaves doubt:
- `divide` is true division of floats; `floor_divide` and `remainder` are Python's (sign of the divisor; floats too);
  `truncate_divide` and `fmod` are C's. Integer division by zero raises in eager and is never lowered unguarded.
- `maximum`/`minimum` give NaN if either argument is NaN; `fmax`/`fmin` give the other argument, and on a processor
  the first of two that are equal.
- `round` is to even. `sign` is (x > 0) - (x < 0), so 0 for NaN.
- `cast` goes from any dtype to `operation.dtype`; float to int truncates; to bool is `!= 0`; to bf16 and f16 rounds to
  nearest even.
- Of bools, the greater and the sum are `or`, the lesser and the product `and` (`OF_BOOLS`); other arithmetic has no meaning.
- `and`, `or`, `xor`, `not` are bitwise on integers, logical on bool. Shifts are C's on the dtype.
- `where(condition, a, b)` selects lane by lane; both are already computed.
- `random(seed, offset, index)`, all int64, is f32 in [0, 1): Philox 4x32-10 with the key (seed's low, high 32 bits) and the
  counter (low, high 32 bits of index >> 2; low, high of offset); of its four words number index & 3, as
  (word >> 8) * 2**-24. Every generator makes these bits; `random_numbers/philox.py` is the reference.
"""

from __future__ import annotations

from typing import Literal

from dynascope.dataclass import dataclass

Result = Literal["same", "bool", "cast", "single"]
CHEAP, DIVISION, TRANSCENDENTAL, RARE = 1, 4, 10, 40


@dataclass(frozen=True, slots=True)
class ScalarOperation:
    """`cost` is in additions, roughly; it decides what is recomputed and what is kept."""

    name: str
    arity: int
    result: Result
    cost: int


def _rows(names: str, arity: int, result: Result, cost: int) -> dict[str, ScalarOperation]:
    return {name: ScalarOperation(name, arity, result, cost) for name in names.split()}


TABLE: dict[str, ScalarOperation] = {
    **_rows("negate absolute floor ceil truncate round sign not", 1, "same", CHEAP),
    **_rows("is_nan is_infinite sign_bit", 1, "bool", CHEAP),
    **_rows("cast", 1, "cast", CHEAP),
    **_rows("square_root reciprocal reciprocal_square_root", 1, "same", DIVISION),
    **_rows("exp exp2 expm1 log log2 log10 log1p tanh sigmoid erf", 1, "same", TRANSCENDENTAL),
    **_rows("erfc sin cos tan asin acos atan sinh cosh asinh acosh atanh lgamma", 1, "same", RARE),
    **_rows(
        "add subtract multiply maximum minimum fmax fmin and or xor shift_left shift_right copysign", 2, "same", CHEAP
    ),
    **_rows("equal not_equal less less_equal greater greater_equal", 2, "bool", CHEAP),
    **_rows("divide floor_divide remainder fmod truncate_divide", 2, "same", DIVISION),
    **_rows("pow atan2 hypot nextafter", 2, "same", RARE),
    **_rows("where", 3, "same", CHEAP),
    **_rows("random", 3, "single", RARE),
}

OF_BOOLS = {"add": "or", "maximum": "or", "fmax": "or", "multiply": "and", "minimum": "and", "fmin": "and"}
"""What arithmetic is on truth values. A code generator never sees the left ones with bool operands."""
ALSO_OF_BOOLS = frozenset(
    ("and", "or", "xor", "not", "where", "cast", "equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
)
