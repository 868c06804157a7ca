"""One function, captured by torch's ways and ours, side by side: what each has, and where it does not hold.

    comparison = compare_captures(f, x)         on other inputs too, made from these: signs, sizes and numbers that are others
    print(comparison)
"""

from dynascope.captures.comparing import Comparison, compare_calls, compare_captures

__all__ = ["Comparison", "compare_calls", "compare_captures"]
