"""Meta kernels of the gradients of margin losses, which torch gives none, and of `histogram` with a count of bins.

    aten.multi_margin_loss_backward(tangent, x, target, ...)     of meta tensors: one like `x`
    torch.histogram(x, 4)                                        4 counts and 5 edges of the type of `x`
"""

from __future__ import annotations

from typing import Any

import torch

from dynascope.meta_kernels.registration import register


def _like_the_operand(tangent: torch.Tensor, operand: torch.Tensor, *others: Any, **keywords: Any) -> torch.Tensor:
    """Eager's kernels fill a new tensor from contiguous operands."""
    return torch.empty(operand.shape, dtype=operand.dtype, device=operand.device)


def _histogram(operand: torch.Tensor, bins: int, **keywords: Any) -> tuple[torch.Tensor, torch.Tensor]:
    return operand.new_empty(bins), operand.new_empty(bins + 1)


register(
    {
        "multi_margin_loss_backward": _like_the_operand,
        "multilabel_margin_loss_backward": _like_the_operand,
        "histogram.bin_ct": _histogram,
    }
)
