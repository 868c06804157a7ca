"""Torch's own state in a graph that is cut into parts: grad mode, autocast, the flags by which it chooses kernels.

    with torch.autocast("cpu"): t = a * b; y = t @ t          set_autocast_enabled('cpu', True), mul, matmul, ...
    part 0: mul        part 1: matmul                         each sets what its operations were written under, and puts it back

A graph sets the state by calls between its operations. Which part such a call would lie in says nothing: the parts are chosen by
what operations need, so each part is given the calls that its own operations need.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import fx

from dynascope.grad.inputs import is_leaf
from dynascope.meta_kernels import autocast, kernel_flags

READ: dict[Any, Callable[..., Any]] = {
    torch._C._set_grad_enabled: torch.is_grad_enabled,
    torch.set_autocast_enabled: torch.is_autocast_enabled,
    torch.set_autocast_dtype: torch.get_autocast_dtype,
    torch.set_autocast_cache_enabled: torch.is_autocast_cache_enabled,
    **kernel_flags.GETTER_OF,
}
"""For each function that sets a part of the state, the one that reads it."""

COUNTS = frozenset({torch.autocast_increment_nesting, torch.autocast_decrement_nesting, torch.clear_autocast_cache})
"""They say when copies of parameters are forgotten, which a part does where it ends."""

State = Mapping[tuple[Any, ...], Any]
"""By setter, and the device that it sets something for: what it has set. What is as it was at the start is left out."""


def sets_state(node: fx.Node) -> bool:
    return node.op == "call_function" and (node.target in READ or node.target in COUNTS)


def states_of(nodes: Sequence[fx.Node]) -> dict[fx.Node, State]:
    """The state that each operation of a graph runs in. Torch's own is now as it is where the graph begins."""
    now: State = {}
    states = {}
    for node in nodes:
        if node.op != "call_function" or node.target not in READ:
            states[node] = now
            continue
        place, wanted = (node.target, *node.args[:-1]), node.args[-1]
        now = {key: value for key, value in now.items() if key != place}
        if wanted != at_start(place):
            now[place] = wanted
    return states


def converted_to_several_types(nodes: Sequence[fx.Node]) -> fx.Node | None:
    """A parameter that is read where autocast is on with several types: its copy keeps the first one until the outermost `with` ends, and
    parts make their own."""
    states = states_of(nodes)
    for node in nodes:
        example = node.meta.get("example_value") if node.op == "placeholder" else None
        if not isinstance(example, torch.Tensor) or not example.requires_grad or not is_leaf(example):
            continue
        for device in autocast.DEVICES:
            enabled, dtype = (torch.set_autocast_enabled, device), (torch.set_autocast_dtype, device)
            read = [states[user] for user in node.users if states[user].get(enabled, at_start(enabled))]
            if len({state.get(dtype, at_start(dtype)) for state in read}) > 1:
                return node
    return None


def at_start(place: tuple[Any, ...]) -> Any:
    setter, *device = place
    return READ[setter](*device)


def change(graph: fx.Graph, before: State, after: State) -> None:
    """Appends the calls that make the state `after` of `before`."""
    for place in (*before, *(place for place in after if place not in before)):
        wanted = after.get(place, at_start(place))
        if wanted != before.get(place, at_start(place)):
            graph.call_function(place[0], (*place[1:], wanted))
    if not after and any(place[0] is torch.set_autocast_enabled for place in before):
        graph.call_function(torch.clear_autocast_cache)
