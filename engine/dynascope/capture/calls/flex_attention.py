"""`flex_attention` as the operators that it stands for: scores and masks of the program's own are kernels, with their gradients.

    flex_attention(q, k, v, block_mask=mask)             attention with the truth values of `mask.mask_mod` as its mask
    flex_attention(q, k, v, score_mod=f)                 softmax(f(q @ k.T * scale, b, h, i, j)) @ v
    either, on a GPU                                     tiled_attention(q, k, v, ...), where what is done with a score is steps

It is read where the program has imported it (`registry.IMPORTED_LATER`). A function that says how scores are changed, or which
count, is followed for one score and mapped over all of them; a tensor that it takes an item of, at a place, is indexed. Which blocks of a
mask are left out, and hints for torch's own kernel, say nothing of the result. What torch refuses, or warns of, is left to it.
"""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional as F
from torch.nn.attention import flex_attention as of_torch

from dynascope.capture.calls import equivalents
from dynascope.capture.calls.arguments import Arguments, Keywords, argument, is_none
from dynascope.capture.calls.functions_of_scores import OF_ALL_SCORES, inside, mapped, over_all
from dynascope.capture.calls.registry import meaning
from dynascope.capture.calls.tiled_attention import in_tiles
from dynascope.capture.reasons import ForeignCall
from dynascope.capture.signals import Break
from dynascope.capture.values import FALSE, TRUE, ConstantValue, TensorValue, Value, boolean

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine

NAMES = ("query", "key", "value", "score_mod", "block_mask", "scale", "enable_gqa", "return_lse", "kernel_options", "return_aux")


@meaning(of_torch.flex_attention)
def flex_attention(machine: Machine, arguments: Arguments, keywords: Keywords) -> Any:
    given = {name: machine.realize(argument(arguments, keywords, at, name)) for at, name in enumerate(NAMES)}
    query, key, value = operands = [given[name] for name in NAMES[:3]]
    if not all(isinstance(each, TensorValue) and each.example.dim() == 4 for each in operands):
        raise left_to_torch("its operands are no tensors of four dimensions")
    if len({(each.example.dtype, each.device) for each in operands}) > 1 or not query.example.is_floating_point():
        raise left_to_torch("its operands are of several types or devices")
    if is_true(given["return_lse"]):
        raise left_to_torch("it is asked for statistics in a way that it warns of")
    heads, groups = query.example.size(1), key.example.size(1)
    if heads % groups or value.example.size(1) != groups or (heads != groups and not is_true(given["enable_gqa"])):
        raise left_to_torch("its heads do not fit")
    batches = {key.example.size(0), value.example.size(0)}
    if batches != {query.example.size(0)} and (batches != {1} or is_none(given["block_mask"])):
        raise left_to_torch("its batches do not fit")
    changed = [query, key, value, *(given[name] for name in NAMES[3:6]), given["return_aux"]]
    return equivalents.enter(machine, attended, changed)


def is_true(value: Value) -> bool:
    return isinstance(value, ConstantValue) and value.value is True


def left_to_torch(why: str) -> Break:
    return Break(ForeignCall("flex_attention", why))


def attended(query, key, value, score_mod, block_mask, scale, wanted):
    """The result lies in the order of the query's dimensions, a row's elements beside one another. Autocast converts what is given, and
    nothing inside."""
    device = query.device.type
    if torch.is_autocast_enabled(device):
        if query.dtype is not torch.float64:
            query, key, value = (each.to(torch.get_autocast_dtype(device)) for each in (query, key, value))
        with torch.autocast(device, enabled=False):
            return attended(query, key, value, score_mod, block_mask, scale, wanted)
    if block_mask is not None and tuple(block_mask.shape[-2:]) != (query.size(-2), key.size(-2)):
        refuse("its mask was made for other lengths")
    if wanted is not None and wanted.max_scores:
        refuse("it is asked for the highest scores")
    if scale is None:
        scale = query.size(-1) ** -0.5
    batch, repeats = query.size(0), query.size(1) // key.size(1)
    if key.size(0) != batch:
        key, value = (each.expand(batch, *each.shape[1:]) for each in (key, value))
    places = [torch.arange(size, device=query.device) for size in (*query.shape[:3], key.size(2))]
    counted = None if block_mask is None else over_all(block_mask.mask_mod, ())(*places)
    is_causal = score_mod is None and counted is not None and counts_up_to_the_row(counted)
    needs_scores = score_mod is not None or wanted is not None or (counted is not None and not is_causal)
    logarithms = None
    if query.is_cuda and needs_scores:
        anything = torch.zeros((), device=query.device).expand(*query.shape[:3], key.size(2))
        changed = None if score_mod is None else over_all(score_mod, (0,))(anything, *places)
        made = in_tiles(query, key, value, counted, changed, scale)
        if made is not None:
            result, ends = made
            logarithms = torch.where(ends == float("inf"), -float("inf"), ends * math.log(2))
            return with_statistics(result, logarithms, wanted)
    if score_mod is None and wanted is None:
        mask = said_once(counted) if needs_scores else None
        result = F.scaled_dot_product_attention(query, key, value, mask, 0.0, is_causal, scale=scale, enable_gqa=repeats > 1)
    else:
        if repeats > 1:
            key, value = (each.repeat_interleave(repeats, 1) for each in (key, value))
        wide = torch.float64 if query.dtype is torch.float64 else torch.float32
        scores = query.to(wide) @ key.to(wide).transpose(-2, -1) * scale
        if score_mod is not None:
            scores = over_all(score_mod, (0,))(scores, *places)
        if counted is not None:
            scores = torch.where(counted, scores, float("-inf"))
        result = torch._safe_softmax(scores, -1).to(query.dtype) @ value
        if wanted is not None and wanted.lse:
            logarithms = torch.where((scores == -float("inf")).all(-1), -float("inf"), scores.logsumexp(-1))
    order = [*sorted(range(3), key=query.stride, reverse=True), 3]
    result = result.permute(order).contiguous().permute([order.index(dimension) for dimension in range(4)])
    return with_statistics(result, logarithms, wanted)


def with_statistics(result, logarithms, wanted):
    if wanted is None:
        return result
    return result, of_torch.AuxOutput(lse=logarithms if wanted.lse and result.numel() > 0 else None)


@meaning(of_torch.create_mask)
def create_mask(machine: Machine, arguments: Arguments, keywords: Keywords) -> Any:
    return equivalents.enter(machine, mask_made, list(arguments), keywords)


def mask_made(mod_fn, B, H, Q_LEN, KV_LEN, device=None):  # noqa: N803 (torch's names, by which it may be called)
    """Whether each column counts for each row, where a mask itself is made inside."""
    if device is None:
        device = torch.accelerator.current_accelerator() or "cpu"
    sizes = (1 if B is None else B, 1 if H is None else H, Q_LEN, KV_LEN)
    places = [torch.arange(size, device=device) for size in sizes]
    if of_torch._get_mod_type(mod_fn) is of_torch._ModificationType.MASK_MOD:
        return over_all(mod_fn, ())(*places)
    return ~torch.isneginf(over_all(mod_fn, (0,))(torch.zeros(sizes, device=device), *places))


def said_once(counted):
    """Of a mask that is the same for all batches or heads, one: attention may make a number of each truth value."""
    for dimension in (0, 1):
        if is_same_along(counted, dimension):
            counted = counted.narrow(dimension, 0, 1)
    return counted


def is_same_along(counted, dimension, /):
    """Whether the mask's function reads no batch, or no head."""


@meaning(is_same_along)
def says_same(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    levels, _ = mapped(machine, arguments[0])
    at = machine.object_of(arguments[1])
    return boolean(len(levels) > at and not inside(levels[at])[0].users)


def counts_up_to_the_row(counted, /):
    """Whether it is `row >= column`, which attention has a kernel for that reads no mask."""


@meaning(counts_up_to_the_row)
def says_causal(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    levels, called = mapped(machine, arguments[0])
    if len(levels) != OF_ALL_SCORES or called is None:
        return FALSE
    above, (column, *others) = inside(levels[-2])[0], inside(levels[-1])
    for each, given in zip(others, levels[-1].args[1:], strict=True):
        if given is above and (called.target, *called.args) in ((operator.ge, each, column), (operator.le, column, each)):
            return TRUE
    return FALSE


def refuse(why, /):
    """Torch says what is wrong, or does what is not done here."""


@meaning(refuse)
def refused(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    raise left_to_torch(machine.object_of(arguments[0]))
