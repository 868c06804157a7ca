"""Results whose history was freed when the graph itself differentiated them: to differentiate them again is an error."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch


class _Freed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, anchor: torch.Tensor, result: torch.Tensor, words: str) -> torch.Tensor:
        ctx.words = words
        return result.detach()

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        raise RuntimeError(ctx.words)


def with_freed_history(function: Callable[..., Any], freed: Mapping[int, str]) -> Callable[..., Any]:
    """`function`, whose results at these places require grad and raise an error of these words when they are differentiated."""
    anchor = torch.empty(0, requires_grad=True)

    def call(*inputs: Any) -> tuple:
        results = list(function(*inputs))
        with torch.enable_grad():  # the graph may have switched gradients off since
            for place, words in freed.items():
                results[place] = _Freed.apply(anchor, results[place], words)
        return tuple(results)

    return call
