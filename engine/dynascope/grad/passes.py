"""Several backward passes through the one node of a region: each frees what eager's would free, and no more.

    l1, l2 = region(x)
    l1.backward()       frees what eager's graph of l1 keeps; what l2 reads besides stays, if l2's graph has none of the former
    l2.backward()       "Trying to backward through the graph a second time", if it has

What a pass through each set of results leaves possible is read off autograd's own graph of the recording. Autograd frees all that a
node saved at once: what is left is moved to an attribute of the node, and counts changes in place as before.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Iterable
from typing import Any

import torch
from torch import fx

from dynascope.dataclass import dataclass
from dynascope.grad.pair import GradPair, InputItself
from dynascope.grad.versions import Check, change_of

WRITE_TO_A_PART = "CopySlices"
WITHOUT_DERIVATIVE = "NotImplemented"
"""Autograd's function of an operator that has no derivative."""
SECOND_TIME = "backward through the graph a second time"


@dataclass(frozen=True, slots=True)
class Left:
    """What earlier passes left: the tangents that may still come in, and the saved values that these read, by their place.

    Of inputs that these do not read there are weak references: a second derivative starts from the inputs.
    """

    tangents: frozenset[int]
    values: dict[int, tuple[Any, Check]]


def possible_after(outputs: list[torch.Tensor], given: Iterable[Any]) -> frozenset[int]:
    """The numbers of the outputs whose graph autograd can run (again), after it ran that of those `given`, and freed it."""
    ran = _reached([output.grad_fn for output, is_given in zip(outputs, given, strict=True) if is_given is not False])
    freed = {node for node in ran if _is_freed(node)}
    if not freed:
        return frozenset(range(len(outputs)))
    return frozenset(i for i, output in enumerate(outputs) if freed.isdisjoint(_reached([output.grad_fn])))


def inputs_reached(outputs: list[torch.Tensor], leaves: list[Any]) -> frozenset[int]:
    """The numbers of the leaves that the outputs' histories lead to."""
    themselves = {id(output) for output in outputs if output.grad_fn is None}
    found = leaves_reached([output.grad_fn for output in outputs], leaves)
    return found | {i for i, leaf in enumerate(leaves) if id(leaf) in themselves}


def leaves_reached(nodes: list[Any], leaves: list[Any]) -> frozenset[int]:
    """The numbers of the leaves that autograd's functions lead to."""
    found = set(map(id, ends_of(nodes)))
    return frozenset(i for i, leaf in enumerate(leaves) if id(leaf) in found)


def ends_of(nodes: list[Any]) -> list[torch.Tensor]:
    """The leaves that autograd's functions lead to, whether or not they are inputs."""
    return [leaf for node in _reached(nodes) if (leaf := getattr(node, "variable", None)) is not None]


def has_no_derivative(nodes: list[Any]) -> bool:
    """Whether they lead to an operator without one: every pass that comes there raises, for leaves made inside too."""
    return any(type(node).__name__ == WITHOUT_DERIVATIVE for node in _reached(nodes))


def _reached(nodes: list[Any]) -> set[Any]:
    found, pending = set(), [node for node in nodes if node is not None]
    while pending:
        node = pending.pop()
        if node not in found:
            found.add(node)
            pending += [following for following, _ in node.next_functions if following is not None]
    return found


def _is_freed(node: Any) -> bool:
    """Whether a node that ran kept a tensor: it has none now, and says so. That of a write to a part (`y[0] = x`) gives up what it does
    with the rest."""
    if not getattr(node, "saves", True):
        return False
    if type(node).__name__ == WRITE_TO_A_PART:
        return True
    try:
        for name in _names_of_saved(type(node)):
            getattr(node, name)
    except RuntimeError as error:
        if SECOND_TIME in str(error):
            return True
        raise
    return False


@functools.cache
def _names_of_saved(kind: type) -> tuple[str, ...]:
    return tuple(name for name in dir(kind) if name.startswith("_saved_") or name == "saved_tensors")


def leave(pair: GradPair, ctx: Any, saved: list[Any], possible: frozenset[int]) -> None:
    """At the end of a pass with `saved`, after which those `possible` remain: keeps what they read, if autograd frees it now."""
    if torch._C._autograd._get_current_graph_task_keep_graph():
        return
    earlier: Left | None = getattr(ctx, "left", None)
    if earlier is not None:
        possible &= earlier.tangents
    values: dict[int, tuple[Any, Check]] = {}
    read = _read_for(pair, possible)
    for place, (value, check) in (_unpacked_now(pair, ctx, saved) if earlier is None else earlier.values).items():
        if place in read:
            values[place] = value, check
        elif possible and isinstance(pair.saved[place].origin, InputItself):
            values[place] = value if isinstance(value, weakref.ref) else weakref.ref(value), check
    ctx.left = Left(possible, values)


def _unpacked_now(pair: GradPair, ctx: Any, saved: list[Any]) -> dict[int, tuple[Any, Check]]:
    """The tensors that autograd gave just now. A result that led back to its node would never be freed."""
    return {
        place: (
            value if isinstance(kept.origin, InputItself) else value.detach(),
            change_of(pair, ctx, place, value),
        )
        for place, (kept, value) in enumerate(zip(pair.saved, saved, strict=True))
        if kept.layout is not None
    }


def values_left(pair: GradPair, ctx: Any, given: Iterable[Any], backward: fx.GraphModule | None) -> list[Any] | None:
    """The saved values after an earlier pass, None in the place of those that are gone. None where eager raises, or where `backward`
    reads one of those."""
    left = ctx.left = getattr(ctx, "left", None) or Left(pair.possible_after, {})
    if not {i for i, is_given in enumerate(given) if is_given is not False} <= left.tangents:
        return None
    numbers = iter(getattr(ctx, "numbers", ()))
    values: list[Any] = [next(numbers) if saved.layout is None else None for saved in pair.saved]
    read = range(len(values)) if backward is None else _places_read(pair, backward)
    for place in read:
        value, check = left.values.get(place, (None, None))
        if isinstance(value, weakref.ref):
            value = value()
        if value is not None:
            check(value)
            values[place] = value
    return None if backward is not None and any(values[place] is None for place in read) else values


def _places_read(pair: GradPair, backward: fx.GraphModule) -> list[int]:
    places = [node for node in backward.graph.nodes if node.op == "placeholder"]
    return [place for place, node in enumerate(places[: len(pair.saved)]) if node.users]


def _read_for(pair: GradPair, tangents: frozenset[int]) -> list[int]:
    """The places of the saved tensors that the usual backward pass reads for these tangents."""
    if not tangents:
        return []
    assert pair.backward is not None
    *nodes, output = pair.backward.graph.nodes
    places = [node for node in nodes if node.op == "placeholder"]
    saved, arriving = places[: len(pair.saved)], places[len(pair.saved) :]
    of_any = _computed_from(arriving)
    of_these = _computed_from([node for i, node in enumerate(arriving) if i in tangents])
    pending = [operand for node in (*of_these, output) for operand in node.all_input_nodes if operand not in of_any]
    read: set[fx.Node] = set()
    while pending:
        node = pending.pop()
        if node not in read:
            read.add(node)
            pending += node.all_input_nodes
    return [i for i, node in enumerate(saved) if node in read and pair.saved[i].layout is not None]


def _computed_from(nodes: list[fx.Node]) -> set[fx.Node]:
    found, pending = set(nodes), list(nodes)
    while pending:
        new = [user for user in pending.pop().users if user.op != "output" and user not in found]
        found.update(new)
        pending += new
    return found
