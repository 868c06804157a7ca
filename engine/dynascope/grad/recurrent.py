"""Recurrent layers in a recording: one operator forward, one backward (`meta_kernels.recurrent`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from dynascope.meta_kernels.recurrent import BACKWARD, FORWARD, LAYERS, Call, call_of

if TYPE_CHECKING:
    from dynascope.grad.record import Recorder


class _Layer(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, call: Call, *operands: torch.Tensor) -> tuple[torch.Tensor, ...]:
        needed = list(ctx.needs_input_grad[1:]) if torch.is_grad_enabled() or any(ctx.needs_input_grad) else []
        needed = needed or [False] * len(operands)
        *results, history = FORWARD(*call, needed)
        ctx.save_for_backward(*operands, history)
        ctx.needed = needed
        ctx.set_materialize_grads(False)
        return tuple(results[: call.results()])

    @staticmethod
    def backward(ctx: Any, *tangents: torch.Tensor | None) -> tuple[Any, ...]:
        *operands, history = ctx.saved_tensors
        if all(tangent is None for tangent in tangents):
            return (None,) * (1 + len(operands))
        found = iter(BACKWARD(history, operands, list(tangents), ctx.needed))
        return (None, *(next(found) if is_needed else None for is_needed in ctx.needed))


def _layer(function: Callable[..., Any]) -> Callable[..., Any]:
    def apply(recorder: Recorder, *arguments: Any) -> Any:
        call = call_of(function, arguments)
        return NotImplemented if call is None else _Layer.apply(call, *call.operands())

    return apply


RULES: dict[Any, Callable[..., Any]] = {function: _layer(function) for function in LAYERS}
