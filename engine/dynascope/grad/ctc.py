"""The loss of alignments in a recording: one operator forward, one backward (`meta_kernels.ctc`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from dynascope.meta_kernels.ctc import BACKWARD, FORWARD, Call, call_of, ctc_loss

if TYPE_CHECKING:
    from dynascope.grad.record import Recorder


class _Loss(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, call: Call, log_probs: torch.Tensor) -> torch.Tensor:
        loss, history = FORWARD(*call, ctx.needs_input_grad[1])
        ctx.save_for_backward(log_probs, history)
        return loss

    @staticmethod
    def backward(ctx: Any, tangent: torch.Tensor) -> tuple[None, torch.Tensor | None]:
        log_probs, history = ctx.saved_tensors
        return None, BACKWARD(history, log_probs, tangent) if ctx.needs_input_grad[1] else None


def _apply(recorder: Recorder, *arguments: Any) -> Any:
    call = call_of(arguments)
    return NotImplemented if call is None else _Loss.apply(call, call.log_probs)


RULES: dict[Any, Callable[..., Any]] = {ctc_loss: _apply}
