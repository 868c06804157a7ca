"""Rows of several lengths, as torch's encoder makes them of a padded tensor and its mask, while the program is followed.

    rows = torch._nested_tensor_from_mask(x, seen, mask_check=False)     no node: x, and which places are seen
    rows.to_padded_tensor(0.0, x.size())                                 torch.where(seen, x, 0.0)

Who is not made for them takes them for no tensor, and breaks: the encoder's call is left to Python then.
"""

from __future__ import annotations

import torch

from dynascope.capture.values import TensorValue, Value


class NestedValue(Value):
    """`padded` holds the rows at the places where `seen` is true. What it holds elsewhere, nobody may read."""

    __slots__ = ("padded", "seen")
    python_type = torch.Tensor

    def __init__(self, padded: TensorValue, seen: TensorValue) -> None:
        self.padded, self.seen, self.source = padded, seen, None
