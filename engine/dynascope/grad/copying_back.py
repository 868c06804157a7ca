"""New contents of an input, with the history that eager's operator in place gives it.

    x.copy_(new)           what x held gets a gradient of zeros, contiguous, to which that of the graph's own use of x is added
    copy_back(x, new)      what x held has no part in what it holds now

The sum of the two lies in memory as zeros do, where eager's gradient lies as the tangent. For a contiguous input these are the same.
"""

from __future__ import annotations

from typing import Any

import torch


class Written(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, target: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        ctx.mark_dirty(target)
        ctx.set_materialize_grads(False)
        target.data.copy_(value)  # a write through `.data` is not counted, and `mark_dirty` counts one
        return target

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor | None) -> tuple[None, torch.Tensor | None]:
        return None, gradients[0]


def copy_back(target: torch.Tensor, value: torch.Tensor) -> None:
    """Of a view autograd makes a gradient of its base, which is its own in either way."""
    if target._is_view():
        target.copy_(value)
    else:
        Written.apply(target, value)
