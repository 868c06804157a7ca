"""Whether two runs of a program have printed the same: numbers with a fraction may differ as results may.

same_words("loss 0.51 at 3", "loss 0.5100001 at 3")    ->  True
same_words("a\\nb", "b\\na", in_any_order=True)          ->  True      several processes print when they like
"""

from __future__ import annotations

import math
import re

NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")


def same_words(a: str, b: str, in_any_order: bool = False) -> bool:
    if in_any_order:
        a, b = ("\n".join(sorted(text.splitlines())) for text in (a, b))
    if NUMBER.split(a) != NUMBER.split(b):
        return False
    return all(map(_is_near, NUMBER.findall(a), NUMBER.findall(b)))


def without_numbers(text: str) -> str:
    """"call 1: 0.3 ms" and "call 2: 0.4 ms" are the same but for these."""
    return NUMBER.sub("0", text)


def _is_near(a: str, b: str) -> bool:
    if a.lstrip("-").isdigit() and b.lstrip("-").isdigit():
        return a == b
    return math.isclose(float(a), float(b), rel_tol=1e-4, abs_tol=1e-5)
