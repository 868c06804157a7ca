"""Attention in tiles as one operator, and its gradients as another, which a graph calls.

    result = tiled_attention(query, key, value, tables, scores, scale)

    query [batch, heads, rows, inner], key [batch, groups, columns, inner], value [batch, groups, columns, width], `groups` dividing
    `heads`; `tables` what the functions in `scores` (`functions.Scores`, as text) take items of. The result is like the query, of `width`.

A device that has a kernel for it registers one (`runtime/tiled_attention.py`); anywhere else all scores are made.
"""

from __future__ import annotations

from typing import Any

import torch

from dynascope.tiled_attention.functions import SCORE, Scores, evaluated, scores_of

NAMESPACE = "dynascope"
LIBRARY = torch.library.Library(NAMESPACE, "FRAGMENT")
LIBRARY.define(
    "tiled_attention(Tensor query, Tensor key, Tensor value, Tensor[] tables, str scores, float scale) -> (Tensor, Tensor)"
)
LIBRARY.define(
    "tiled_attention_backward(Tensor tangent, Tensor query, Tensor key, Tensor value, Tensor[] tables, Tensor result,"
    " Tensor logsumexp, str scores, float scale) -> (Tensor, Tensor, Tensor)"
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
        result, logsumexp = output
        ctx.mark_non_differentiable(logsumexp)
        ctx.save_for_backward(query, key, value, result, logsumexp, *tables)

    @staticmethod
    def backward(ctx: Any, tangent: torch.Tensor, _: Any) -> tuple[Any, ...]:
        query, key, value, result, logsumexp, *tables = ctx.saved_tensors
        if torch.is_grad_enabled():  # they are differentiated again: the formula's can be
            return *gradients_of_formula(tangent, (query, key, value), tables, *ctx.told, create_graph=True), None, None, None
        gradients = BACKWARD(tangent, query, key, value, tables, result, logsumexp, *ctx.told)
        return *gradients, None, None, None


def tiled_attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, tables: list[torch.Tensor], scores: str, scale: float
) -> torch.Tensor:
    """What a graph calls. Tables get no gradients."""
    result, _ = _Attention.apply(query, key, value, tables, scores, scale)
    return result


def shaped(query: torch.Tensor, value: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The result, whose dimensions lie in the order of the query's, a row's elements beside one another, and the logarithms of sums."""
    order = [*sorted(range(3), key=query.stride, reverse=True), 3]
    sizes = [*query.shape[:3], value.size(3)]
    result = query.new_empty([sizes[each] for each in order]).permute([order.index(each) for each in range(4)])
    return result, query.new_empty(query.shape[:3], dtype=torch.float32)


def _forward(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, tables: list[torch.Tensor], scores: str, scale: float
) -> tuple[torch.Tensor, torch.Tensor]:
    result, logsumexp = shaped(query, value)
    changed, weights = _weights(query, key, tables, scores_of(scores), scale)
    repeats = query.size(1) // key.size(1)
    result.copy_(weights.to(query.dtype) @ value.repeat_interleave(repeats, 1))
    return result, logsumexp.copy_(changed.logsumexp(-1))


def _weights(
    query: torch.Tensor, key: torch.Tensor, tables: list[torch.Tensor], scores: Scores, scale: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """The changed scores, and their softmax: no weight at all where nothing counts."""
    repeated = key.repeat_interleave(query.size(1) // key.size(1), 1)
    made = query.float() @ repeated.float().transpose(-2, -1) * scale
    at = {}
    for dimension, name in enumerate(("batch", "head", "row", "column")):
        sizes = [-1 if each == dimension else 1 for each in range(4)]
        at[name] = torch.arange(made.size(dimension), device=query.device).view(sizes)
    if scores.change is not None:
        (changed, *_) = evaluated(scores.change, {**at, SCORE: made}, tables)
        made = torch.as_tensor(changed, dtype=made.dtype, device=made.device).expand(made.shape)
    (counts,) = evaluated(scores.mask, at, tables)
    made = torch.where(torch.as_tensor(counts, device=query.device), made, float("-inf"))
    return made, torch._safe_softmax(made, -1)


def _backward(
    tangent: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    tables: list[torch.Tensor],
    result: torch.Tensor,
    logsumexp: torch.Tensor,
    scores: str,
    scale: float,
) -> tuple[torch.Tensor, ...]:
    operands = tuple(each.detach().requires_grad_() for each in (query, key, value))
    gradients = gradients_of_formula(tangent, operands, tables, scores, scale)
    return tuple(each.contiguous() for each in gradients)


def gradients_of_formula(
    tangent: torch.Tensor,
    operands: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    tables: list[torch.Tensor],
    scores: str,
    scale: float,
    create_graph: bool = False,
) -> tuple[torch.Tensor, ...]:
    query, key, value = operands
    with torch.enable_grad():
        _, weights = _weights(query, key, tables, scores_of(scores), scale)
        made = weights.to(query.dtype) @ value.repeat_interleave(query.size(1) // key.size(1), 1)
    wanted = [each for each in operands if each.requires_grad]
    found = iter(torch.autograd.grad(made, wanted, tangent, create_graph=create_graph))
    return tuple(next(found) if each.requires_grad else torch.zeros_like(each) for each in operands)


def _forward_meta(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, tables: list[torch.Tensor], scores: str, scale: float
) -> tuple[torch.Tensor, torch.Tensor]:
    return shaped(query, value)


def _backward_meta(
    tangent: torch.Tensor, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *rest: Any
) -> tuple[torch.Tensor, ...]:
    return tuple(gradient_of(each) for each in (query, key, value))


def gradient_of(operand: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(operand, memory_format=torch.contiguous_format)


LIBRARY.impl("tiled_attention", _forward, "CompositeExplicitAutograd")
LIBRARY.impl("tiled_attention", _forward_meta, "Meta")
LIBRARY.impl("tiled_attention_backward", _backward, "CompositeExplicitAutograd")
LIBRARY.impl("tiled_attention_backward", _backward_meta, "Meta")
