"""Meta kernels of operators that draw samples element by element, and of the samples' gradients, which torch gives none.

    torch._sample_dirichlet(alpha)                 of a meta tensor: one of its sizes and type, contiguous
    aten._standard_gamma_grad(alpha, sample)       of meta tensors: one that lies as their sum does
"""

from __future__ import annotations

import functools
import operator
from typing import Any

import torch

from dynascope.meta_kernels.registration import register


def _as_the_first(first: torch.Tensor, *others: Any, **keywords: Any) -> torch.Tensor:
    """Eager's kernels fill a new tensor, whatever the strides of the operand are."""
    return torch.empty(first.shape, dtype=first.dtype, device=first.device)


def _as_their_sum(*operands: torch.Tensor) -> torch.Tensor:
    """Eager's kernels go over all operands at once, as those of arithmetic do, but take one type alone."""
    if len({each.dtype for each in operands}) > 1:
        raise RuntimeError(f"Found dtype {operands[-1].dtype} but expected {operands[0].dtype}")
    return functools.reduce(operator.add, operands)


register(
    {
        "_sample_dirichlet": _as_the_first,
        "binomial": _as_the_first,
        "_standard_gamma_grad": _as_their_sum,
        "_dirichlet_grad": _as_their_sum,
    }
)
