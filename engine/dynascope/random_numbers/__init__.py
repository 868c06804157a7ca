"""Random numbers without effects on tensors: as functions of a seed, by the two operators that `random="device"` puts into
graphs, and as what eager's in-place operators write.

Both the recording of programs and the lowering to loops know them, and they know neither.
"""

from dynascope.random_numbers.filling import filling, is_filling
from dynascope.random_numbers.operators import DRAW_SEED, UNIFORM

__all__ = ["DRAW_SEED", "UNIFORM", "filling", "is_filling"]
