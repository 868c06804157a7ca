"""`torch.cond`: two captured functions, as the target of one node of a graph.

    torch.cond(x.sum() > 0, f, g, (x,))       Chosen(graph of f, graph of g)(condition, x, ...)

Both take the same operands and give tensors of the same kind. Which one runs is known when the condition is.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from dynascope.dataclass import dataclass


@dataclass(frozen=True, eq=False)
class Chosen:
    forward: fx.GraphModule
    otherwise: fx.GraphModule

    def __post_init__(self) -> None:
        """As fx names what a node calls."""
        object.__setattr__(self, "__name__", "cond")
        object.__setattr__(self, "__module__", __name__)

    def __call__(self, condition: torch.Tensor, *operands: Any) -> tuple[torch.Tensor, ...]:
        chosen = self.forward if condition.is_meta or bool(condition) else self.otherwise
        return tuple(chosen.forward(*operands))

    def described(self, arguments: tuple, keywords: Any) -> tuple[torch.Tensor, ...]:
        """Of meta tensors: one is like the other."""
        return self(*arguments)
