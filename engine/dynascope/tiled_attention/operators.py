"""Attention in tiles as one operator, and its gradients as another, which a graph calls.

    result, ends = tiled_attention(query, key, value, tables, scores, scale)

    query [batch, heads, rows, inner], key [batch, groups, columns, inner], value [batch, groups, columns, width], `groups` dividing
    `heads`; `tables` what the functions in `scores` (`functions.Scores`, as text) take items of. The result is like the query, of
    `width`; `ends` are the logarithms to base two of the sums of exponentials of each row's scores, infinite where none counts.

A device that has a kernel for it registers one (`runtime/tiled_attention.py`); anywhere else all scores are made.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from dynascope.tiled_attention.functions import PLACES, SCORE, Scores, evaluated, scores_of

LIBRARY = torch.library.Library("dynascope", "FRAGMENT")
LIBRARY.define(
    "tiled_attention(Tensor query, Tensor key, Tensor value, Tensor[] tables, str scores, float scale) -> (Tensor, Tensor)"
)
LIBRARY.define(
    "tiled_attention_backward(Tensor tangent, Tensor? of_ends, Tensor query, Tensor key, Tensor value, Tensor[] tables, Tensor result,"
    " Tensor ends, str scores, float scale) -> (Tensor, Tensor, Tensor)"
)
FORWARD = torch.ops.dynascope.tiled_attention.default
BACKWARD = torch.ops.dynascope.tiled_attention_backward.default


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(*given: Any) -> tuple[torch.Tensor, torch.Tensor]:
        return FORWARD(*given)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, torch.Tensor]) -> None:
        query, key, value, tables, *ctx.told = inputs
        ctx.save_for_backward(query, key, value, *output, *tables)
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, tangent: torch.Tensor | None, of_ends: torch.Tensor | None) -> tuple[Any, ...]:
        query, key, value, result, ends, *tables = ctx.saved_tensors
        if tangent is None:
            tangent = torch.zeros_like(result)
        if torch.is_grad_enabled():  # they are differentiated again: the formula's can be
            gradients = gradients_of_formula((tangent, of_ends), (query, key, value), tables, *ctx.told, create_graph=True)
        else:
            gradients = BACKWARD(tangent, of_ends, query, key, value, tables, result, ends, *ctx.told)
        return *gradients, None, None, None


def tiled_attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, tables: list[torch.Tensor], scores: str, scale: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """What a graph calls. Tables get no gradients."""
    return _Attention.apply(query, key, value, tables, scores, scale)


def shaped(query: torch.Tensor, value: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The result, whose dimensions lie in the order of the query's, a row's elements beside one another, and the ends."""
    order = [*sorted(range(3), key=query.stride, reverse=True), 3]
    sizes = [*query.shape[:3], value.size(3)]
    result = query.new_empty([sizes[each] for each in order]).permute([order.index(each) for each in range(4)])
    return result, query.new_empty(query.shape[:3], dtype=torch.float32)


def forward_by_formula(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, tables: list[torch.Tensor], scores: str, scale: float
) -> tuple[torch.Tensor, torch.Tensor]:
    made, ends = _by_formula(query, key, value, tables, scores_of(scores), scale)
    result, _ = shaped(query, value)
    return result.copy_(made), ends


def _by_formula(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, tables: list[torch.Tensor], scores: Scores, scale: float
) -> tuple[torch.Tensor, torch.Tensor]:
    changed, weights = _weights(query, key, tables, scores, scale)
    made = weights.to(query.dtype) @ value.repeat_interleave(query.size(1) // key.size(1), 1)
    counts = (changed != float("-inf")).any(-1)
    ends = changed.logsumexp(-1) / math.log(2)
    return made, torch.where(counts, ends, float("inf"))


def _weights(
    query: torch.Tensor, key: torch.Tensor, tables: list[torch.Tensor], scores: Scores, scale: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """The changed scores, and their softmax: no weight at all where nothing counts."""
    repeated = key.repeat_interleave(query.size(1) // key.size(1), 1)
    made = query.float() @ repeated.float().transpose(-2, -1) * scale
    at = {}
    for dimension, name in enumerate(PLACES):
        sizes = [-1 if each == dimension else 1 for each in range(4)]
        at[name] = torch.arange(made.size(dimension), device=query.device).view(sizes)
    if scores.change is not None:
        (changed, *_) = evaluated(scores.change, {**at, SCORE: made}, tables)
        made = torch.as_tensor(changed, dtype=made.dtype, device=made.device).expand(made.shape)
    (counts,) = evaluated(scores.mask, at, tables)
    made = torch.where(torch.as_tensor(counts, device=query.device), made, float("-inf"))
    return made, torch._safe_softmax(made, -1)


def backward_by_formula(
    tangent: torch.Tensor,
    of_ends: torch.Tensor | None,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    tables: list[torch.Tensor],
    result: torch.Tensor,
    ends: torch.Tensor,
    scores: str,
    scale: float,
) -> tuple[torch.Tensor, ...]:
    gradients = gradients_of_formula((tangent, of_ends), (query, key, value), tables, scores, scale)
    return tuple(each.contiguous() for each in gradients)


def gradients_of_formula(
    tangents: tuple[torch.Tensor, torch.Tensor | None],
    operands: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    tables: list[torch.Tensor],
    scores: str,
    scale: float,
    create_graph: bool = False,
) -> tuple[torch.Tensor, ...]:
    """With all scores in memory. The second tangent is that of the ends, if they are differentiated."""
    with torch.enable_grad():
        if not create_graph:
            operands = tuple(each.detach().requires_grad_() for each in operands)  # type: ignore[assignment]
        results = _by_formula(*operands, tables, scores_of(scores), scale)
    given = [(result, tangent) for result, tangent in zip(results, tangents, strict=True) if tangent is not None]
    wanted = [each for each in operands if each.requires_grad]
    found = iter(torch.autograd.grad([each for each, _ in given], wanted, [each for _, each in given], create_graph=create_graph))
    return tuple(next(found) if each.requires_grad else torch.zeros_like(each) for each in operands)


def _forward_meta(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, tables: list[torch.Tensor], scores: str, scale: float
) -> tuple[torch.Tensor, torch.Tensor]:
    return shaped(query, value)


def _backward_meta(
    tangent: torch.Tensor, of_ends: torch.Tensor | None, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *rest: Any
) -> tuple[torch.Tensor, ...]:
    return tuple(gradient_of(each) for each in (query, key, value))


def gradient_of(operand: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(operand, memory_format=torch.contiguous_format)


LIBRARY.impl("tiled_attention", forward_by_formula, "CompositeExplicitAutograd")
LIBRARY.impl("tiled_attention", _forward_meta, "Meta")
LIBRARY.impl("tiled_attention_backward", backward_by_formula, "CompositeExplicitAutograd")
LIBRARY.impl("tiled_attention_backward", _backward_meta, "Meta")
