"""`flex_attention` as the operators that it stands for: scores and masks of the program's own are kernels, with their gradients.

    flex_attention(q, k, v, block_mask=mask)             attention with the truth values of `mask.mask_mod` as its mask
    flex_attention(q, k, v, score_mod=f)                 softmax(f(q @ k.T * scale, b, h, i, j)) @ v

It is read where the program has imported it (`registry.IMPORTED_LATER`). A function that says how scores are changed, or which
count, is followed for one score and mapped over all of them; a tensor that it takes an item of, at a place, is indexed. Which blocks of a
mask are left out, and hints for torch's own kernel, say nothing of the result. Statistics beside it are left to torch, and what it refuses.
"""

from __future__ import annotations

import functools
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional as F
from torch.nn.attention import flex_attention as of_torch

from dynascope.capture.calls import equivalents
from dynascope.capture.calls.arguments import Arguments, Keywords, argument, is_none
from dynascope.capture.calls.autograd_functions import meanwhile
from dynascope.capture.calls.registry import meaning
from dynascope.capture.calls.tensors import apply_function
from dynascope.capture.reasons import ForeignCall
from dynascope.capture.signals import Break
from dynascope.capture.values import ConstantValue, ListValue, TensorValue, TupleValue, Value

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine

aten = torch.ops.aten
NAMES = ("query", "key", "value", "score_mod", "block_mask", "scale", "enable_gqa", "return_lse", "kernel_options", "return_aux")


@meaning(of_torch.flex_attention)
def flex_attention(machine: Machine, arguments: Arguments, keywords: Keywords) -> Any:
    given = {name: machine.realize(argument(arguments, keywords, at, name)) for at, name in enumerate(NAMES)}
    query, key, value = operands = [given[name] for name in NAMES[:3]]
    if not all(isinstance(each, TensorValue) and each.example.dim() == 4 for each in operands):
        raise left_to_torch("its operands are no tensors of four dimensions")
    if len({(each.example.dtype, each.device) for each in operands}) > 1 or not query.example.is_floating_point():
        raise left_to_torch("its operands are of several types or devices")
    if not is_none(given["return_aux"]) or is_true(given["return_lse"]):
        raise left_to_torch("it is asked for statistics too")
    heads, groups = query.example.size(1), key.example.size(1)
    if heads % groups or value.example.size(1) != groups or (heads != groups and not is_true(given["enable_gqa"])):
        raise left_to_torch("its heads do not fit")
    batches = {key.example.size(0), value.example.size(0)}
    if batches != {query.example.size(0)} and (batches != {1} or is_none(given["block_mask"])):
        raise left_to_torch("its batches do not fit")
    changed = [query, key, value, given["score_mod"], given["block_mask"], given["scale"]]
    return equivalents.enter(machine, attended, changed)


def is_true(value: Value) -> bool:
    return isinstance(value, ConstantValue) and value.value is True


def left_to_torch(why: str) -> Break:
    return Break(ForeignCall("flex_attention", why))


def attended(query, key, value, score_mod, block_mask, scale):
    """The result lies in the order of the query's dimensions, a row's elements beside one another."""
    if block_mask is not None and tuple(block_mask.shape[-2:]) != (query.size(-2), key.size(-2)):
        refuse_lengths()
    if scale is None:
        scale = query.size(-1) ** -0.5
    batch, repeats = query.size(0), query.size(1) // key.size(1)
    if key.size(0) != batch:
        key, value = (each.expand(batch, *each.shape[1:]) for each in (key, value))
    places = [torch.arange(size, device=query.device) for size in (*query.shape[:3], key.size(2))]
    counted = None if block_mask is None else over_all(block_mask.mask_mod, ())(*places)
    if score_mod is None:
        result = F.scaled_dot_product_attention(query, key, value, counted, scale=scale, enable_gqa=repeats > 1)
    else:
        if repeats > 1:
            key, value = (each.repeat_interleave(repeats, 1) for each in (key, value))
        wide = torch.float64 if query.dtype is torch.float64 else torch.float32
        scores = query.to(wide) @ key.to(wide).transpose(-2, -1) * scale
        scores = over_all(score_mod, (0,))(scores, *places)
        if counted is not None:
            scores = torch.where(counted, scores, float("-inf"))
        result = torch._safe_softmax(scores, -1).to(query.dtype) @ value
    order = [*sorted(range(3), key=query.stride, reverse=True), 3]
    return result.permute(order).contiguous().permute([order.index(dimension) for dimension in range(4)])


def over_all(function, scores):
    """For each batch, head, row and column, as `scores` are mapped before them."""
    mapped = functools.partial(at_places, function)
    for dims in ((None, None, None, 0), (None, None, 0, None), (None, 0, None, None), (0, None, None, None)):
        mapped = torch.vmap(mapped, in_dims=(*scores, *dims))
    return mapped


def at_places(function, *given):
    """Inside, a tensor's item at a place is taken as its index says."""
    return function(*given)


@meaning(at_places)
def call_at_places(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    with meanwhile(machine, partial(setattr, machine, "places_are_indices"), machine.places_are_indices, True):
        return machine.call_now(arguments[0], arguments[1:])


def refuse_lengths():
    """Torch says what is wrong with a mask that was made for other lengths."""


@meaning(refuse_lengths)
def say_lengths(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    raise left_to_torch("its mask was made for other lengths")


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
