"""What an in-place random operator writes, as a function without effects but on the generator.

    filling(aten.bernoulli_.float)([4, 6], [1, 4], torch.float32, device, 0.5)     a tensor of its own, strides (1, 4)

The operator itself fills a new tensor that lies as its target lies: which number goes where depends on that, and eager's
functional forms (`bernoulli.p`, `random`) fill tensors laid out in their own way.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch

FILLING = frozenset(
    ("bernoulli_", "cauchy_", "exponential_", "geometric_", "log_normal_", "normal_", "random_", "uniform_")
)
"""Operators that read nothing of the tensor that they write."""


def is_filling(operator: Any) -> bool:
    return operator.namespace == "aten" and operator.overloadpacket.__name__ in FILLING


@cache
def filling(operator: Any) -> Callable[..., torch.Tensor]:
    """One function for each operator, with its tags."""

    def fill(
        sizes: list[int], strides: list[int], dtype: torch.dtype, device: torch.device, *rest: Any, **named: Any
    ) -> torch.Tensor:
        return operator(torch.empty_strided(sizes, strides, dtype=dtype, device=device), *rest, **named)

    fill.__name__ = fill.__qualname__ = f"filled_by_{operator.overloadpacket.__name__.rstrip('_')}"
    fill.written_by = operator
    fill.tags = (torch.Tag.nondeterministic_seeded,)
    return fill
