"""Functions of one score of attention, mapped over batches, heads, rows and columns, and what the graph says of them.

    over_all(mask_mod, ())(batches, heads, rows, columns)      four nodes that map, each in the graph of the one before
    mapped(machine, result)                                    these, and what the innermost calls, if it is one operator

A tensor that such a function takes an item of, at a place, is indexed.
"""

from __future__ import annotations

import functools
import operator
from typing import TYPE_CHECKING

import torch
from torch import fx

from dynascope.autograd_functions.transforms import Mapped
from dynascope.capture.calls.arguments import Arguments, Keywords
from dynascope.capture.calls.autograd_functions import meanwhile
from dynascope.capture.calls.registry import meaning
from dynascope.capture.calls.tensors import apply_function
from dynascope.capture.values import ConstantValue, ListValue, TensorValue, TupleValue, Value
from dynascope.tiled_attention.functions import PLACES

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine

aten = torch.ops.aten
OF_ALL_SCORES = len(PLACES)
"""How many such nodes there are."""


def mapped(machine: Machine, value: Value) -> tuple[list[fx.Node], fx.Node | None]:
    """The nodes that map over batches, heads, rows and columns, each in the graph of the one before, and what the last calls, if it is one
    operator."""
    node = machine.realize(value).node
    levels, called = [], node.args[0] if node.target is operator.getitem else None
    while called is not None and isinstance(called.target, Mapped):
        levels.append(called)
        called = only_call(called.target.forward.graph)
    return levels, called


def inside(level: fx.Node) -> list[fx.Node]:
    """What its function is given: one of what it maps over comes first."""
    return level.target.forward.graph.find_nodes(op="placeholder")


def only_call(graph: fx.Graph) -> fx.Node | None:
    calls = [node for node in graph.nodes if node.op not in ("placeholder", "output") and node.target is not operator.getitem]
    return calls[0] if len(calls) == 1 else None


def over_all(function, scores):
    """For each batch, head, row and column, as `scores` are mapped before them."""
    for_all = functools.partial(at_places, function)
    for dims in ((None, None, None, 0), (None, None, 0, None), (None, 0, None, None), (0, None, None, None)):  # the last is outside
        for_all = torch.vmap(for_all, in_dims=(*scores, *dims))
    return for_all


def at_places(function, /, *given):
    """Inside, a tensor's item at a place is taken as its index says."""
    return function(*given)


@meaning(at_places)
def call_at_places(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    with meanwhile(machine, functools.partial(setattr, machine, "places_are_indices"), machine.places_are_indices, True):
        return machine.call_now(arguments[0], arguments[1:])


def indexed(machine: Machine, table: TensorValue, key: Value) -> Value | None:
    """`table[h, i - j]` where the places are tensors or numbers; None for other subscripts."""
    key = machine.realize(key)
    places = [machine.realize(item) for item in key.items] if isinstance(key, TupleValue) else [key]
    if not places or not all(isinstance(each, TensorValue) or is_number(each) for each in places):
        return None
    tensors = [each if isinstance(each, TensorValue) else number_at(machine, table, each) for each in places]
    return apply_function(machine, aten.index.Tensor, [table, ListValue(tensors)], {})


def is_number(value: Value) -> bool:
    return isinstance(value, ConstantValue) and type(value.value) is int


def number_at(machine: Machine, table: TensorValue, number: Value) -> Value:
    told = {"dtype": ConstantValue(torch.int64), "device": ConstantValue(table.device)}
    return apply_function(machine, torch.full, [TupleValue(()), number], told)
