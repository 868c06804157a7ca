"""Random numbers as functions of a seed: the two operators that `random="device"` puts into graphs, and their recipe.

Both the recording of programs and the lowering to loops know them, and they know neither.
"""

from dynascope.random_numbers.operators import DRAW_SEED, UNIFORM

__all__ = ["DRAW_SEED", "UNIFORM"]
