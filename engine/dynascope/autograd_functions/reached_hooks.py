"""Hooks that are called where a gradient comes through, as eager calls them: a region is one node, and autograd calls the hooks on all
of its results and inputs in every pass, with None where that does not come through.

    register_where_reached(h, hook)     inside: of a region that gives `y` too, `y.backward()` calls no hook of `h`
    register_on_function(y, hook)       inside: of a custom function that runs by itself, no call where nothing came to it
    keep_to_passes(function)            of a leaf that a pass through the region does not lead to
    hooks_from_now_on(result)           outside: those that the program puts on it after the call

Autograd calls them before the region's own backward pass, which could not take them back.
"""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any

import torch

COUNTS_ITS_CALLS = "torch.autograd.graph"
"""Where `register_multi_grad_hook` makes hooks that are to be called by each function which the engine says that it runs."""


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


class Arrival:
    """A hook that remembers whether a gradient has come, for those that follow when it is there."""

    __slots__ = ("came",)

    def __init__(self) -> None:
        self.came = False  # it is put there in a pass that brings none

    def __call__(self, gradient: torch.Tensor | None) -> None:
        self.came = gradient is not None


class AfterArrival:
    """A hook that is called when a gradient was accumulated, where there was one."""

    __slots__ = ("arrival", "hook")

    def __init__(self, hook: Callable[[torch.Tensor], None], arrival: Arrival) -> None:
        self.hook, self.arrival = hook, arrival

    def __call__(self, leaf: torch.Tensor) -> None:
        if self.arrival.came:
            self.hook(leaf)


def where_reached(hook: Callable[[torch.Tensor], Any]) -> Callable[..., Any]:
    is_ours = isinstance(hook, (WhereReached, Arrival))
    return hook if is_ours or getattr(hook, "__module__", None) == COUNTS_ITS_CALLS else WhereReached(hook)


class ReachedHooks(collections.OrderedDict):
    """A tensor's hooks, which keep to the passes that come through it."""

    __slots__ = ()

    def __setitem__(self, key: int, hook: Callable[[torch.Tensor], Any]) -> None:
        super().__setitem__(key, where_reached(hook))


def hooks_from_now_on(result: torch.Tensor) -> None:
    """Those that the program will put on a result, which has none yet."""
    function = result.grad_fn
    if function is not None:
        result._backward_hooks = ReachedHooks()
        function._register_hook_dict(result)


def register_where_reached(tensor: torch.Tensor, hook: Callable[[torch.Tensor], Any]) -> Any:
    return tensor.register_hook(where_reached(hook))


def register_on_function(tensor: Any, hook: Callable[..., Any]) -> Any:
    """On the function that the tensor came from, called when it has run with the gradients that leave it and those that came."""
    return tensor.grad_fn.register_hook(lambda leave, came: None if all(each is None for each in came) else hook(leave, came))


def register_on_function_before(tensor: Any, hook: Callable[..., Any]) -> Any:
    """Called before it runs, with the gradients that came."""
    return tensor.grad_fn.register_prehook(lambda came: None if all(each is None for each in came) else hook(came))


def keep_to_passes(function: Any) -> None:
    """Of the leaf that autograd's function accumulates into."""
    leaf = getattr(function, "variable", None)
    if leaf is None or not leaf.requires_grad:
        return
    hooks = leaf._backward_hooks or {}
    hooks.update({key: where_reached(hook) for key, hook in hooks.items()})
    after = leaf._post_accumulate_grad_hooks or {}
    if any(not isinstance(hook, AfterArrival) for hook in after.values()):
        arrival = next((hook for hook in hooks.values() if isinstance(hook, Arrival)), None)
        if arrival is None:
            arrival = Arrival()
            leaf.register_hook(arrival)
        after.update({key: hook if isinstance(hook, AfterArrival) else AfterArrival(hook, arrival) for key, hook in after.items()})
