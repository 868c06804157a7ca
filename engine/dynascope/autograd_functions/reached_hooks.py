"""Hooks that are called where a gradient comes through, as eager calls them: a region is one node, and autograd calls the hooks on all
of its results and inputs in every pass, with None where that does not come through.

    register_where_reached(h, hook)     inside: of a region that gives `y` too, `y.backward()` calls no hook of `h`
    keep_to_passes(function)            of a leaf that a pass through the region does not lead to
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


class WhereReached:
    """A hook that is not called with None. Autograd's errors name it as the program does."""

    __slots__ = ("hook",)

    def __init__(self, hook: Callable[[torch.Tensor], Any]) -> None:
        self.hook = hook

    @property
    def __name__(self) -> str:
        return self.hook.__name__

    def __call__(self, gradient: torch.Tensor | None) -> Any:
        return None if gradient is None else self.hook(gradient)


def register_where_reached(tensor: torch.Tensor, hook: Callable[[torch.Tensor], Any]) -> Any:
    return tensor.register_hook(WhereReached(hook))


def keep_to_passes(function: Any) -> None:
    """Of the leaf that autograd's function accumulates into."""
    hooks = getattr(getattr(function, "variable", None), "_backward_hooks", None) or {}
    for key, hook in hooks.items():
        if not isinstance(hook, WhereReached):
            hooks[key] = WhereReached(hook)
