"""Attention in tiles, where what is done with one score, and what counts, is operations on numbers and items of tensors.

    in_tiles(q, k, v, counted, changed, scale)     tiled_attention(q, k, v, [tables], "steps", scale), or None

`counted` and `changed` are what a mask and a change of scores give, mapped over all scores; their nodes leave the graph.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import fx

from dynascope.capture.calls.arguments import Arguments, Keywords, is_none
from dynascope.capture.calls.functions_of_scores import OF_ALL_SCORES, inside, mapped
from dynascope.capture.calls.registry import meaning
from dynascope.capture.calls.tensors import apply_function
from dynascope.capture.values import NONE, ConstantValue, ListValue, TensorValue, Value
from dynascope.tiled_attention.functions import (
    EVERYTHING,
    PLACES,
    SCORE,
    NotSteps,
    ScoreFunction,
    Scores,
    recorded,
)
from dynascope.tiled_attention.operators import tiled_attention

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine

IN_TILES = (torch.float16, torch.bfloat16, torch.float32)
LONGEST = 256
"""Elements of a row that a tile can have."""


def in_tiles(query, key, value, counted, changed, scale, /):
    """Attention that never makes all scores, where each is changed and counted by operations on one; None where they are not."""


@meaning(in_tiles)
def made_in_tiles(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    query, key, value, counted, changed, scale = map(machine.realize, arguments)
    leave_out(machine, changed)  # else scores are changed again, where all of them are there
    lengths = query.example.size(3), value.example.size(3)
    if query.example.dtype not in IN_TILES or not isinstance(scale, ConstantValue) or not all(type(each) is int for each in lengths):
        return NONE
    if max(lengths) > LONGEST:
        return NONE
    tables: list[TensorValue] = []
    try:
        mask = EVERYTHING if is_none(counted) else steps_of(machine, counted, tables)
        change = None if is_none(changed) else steps_of(machine, changed, tables)
    except NotSteps:
        return NONE
    if any(table.device != query.device for table in tables):
        return NONE
    leave_out(machine, counted)
    told = [ConstantValue(Scores(mask, change).text()), ConstantValue(float(scale.value))]
    return apply_function(machine, tiled_attention, [query, key, value, ListValue(tables), *told], {})


def leave_out(machine: Machine, value: Value) -> None:
    """Nobody reads what is mapped: its nodes do not run."""
    levels = [] if is_none(value) else mapped(machine, value)[0]
    if levels:
        machine.graph.leave_out([value.node, levels[0]])


def steps_of(machine: Machine, value: TensorValue, tables: list[TensorValue]) -> ScoreFunction:
    """What is mapped over all scores, as steps; what it takes items of comes to `tables`. Raises NotSteps."""
    levels, _ = mapped(machine, value)
    if len(levels) != OF_ALL_SCORES:
        raise NotSteps("it is not mapped over all scores")
    innermost = levels[-1].target
    named, read = [], []
    for number in range(len(inside(levels[-1]))):
        given = origin(levels, number)
        named.append(given if isinstance(given, str) else None)
        if isinstance(given, fx.Node):
            read.append(table_of(given))
    examples = [each.example for each in read]
    changes = innermost.inputs == len((SCORE, PLACES[-1]))

    def for_one(*given):
        return innermost.forward.forward(*given)[0]

    function = machine.in_plain_mode(lambda: recorded(for_one, named, examples, changes))
    first = len(tables)
    tables += read
    return function.with_tables_from(first)


def table_of(node: fx.Node) -> TensorValue:
    example = node.meta.get("example_value")
    if not isinstance(example, torch.Tensor) or example.requires_grad:
        raise NotSteps("it reads what is no tensor, or what needs a gradient")
    return TensorValue(node, example, node.meta["device"])


def origin(levels: list[fx.Node], number: int) -> str | fx.Node:
    """What the innermost function is given there: a place, the score, or what is outside of all."""
    for depth in reversed(range(len(levels))):
        inputs = levels[depth].target.inputs
        if number < inputs:
            if number == inputs - 1:
                return PLACES[depth]
            if depth == len(levels) - 1:
                return SCORE
            raise NotSteps("it reads several scores")
        node = levels[depth].args[number]
        if depth == 0:
            return node
        number = inside(levels[depth - 1]).index(node)
    raise AssertionError("the first level is outside")
