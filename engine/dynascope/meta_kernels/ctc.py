"""`torch.ctc_loss` as one operator with its gradient: the loss over all ways to align two sequences.

    torch.ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, reduction, zero_infinity)
    loss, history = dynascope.ctc_loss(log_probs, targets, lengths, numbers, ..., needed)
    gradient = dynascope.ctc_loss_backward(history, log_probs, tangent)

What torch keeps for its gradient is as large as the longest target, which only the lengths' contents say. So the forward operator runs
what eager runs, and `history` holds what autograd recorded there, as of recurrent layers. Lengths are two tensors or two rows of numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

LIBRARY = torch.library.Library("dynascope", "FRAGMENT")
LIBRARY.define(
    "ctc_loss(Tensor log_probs, Tensor targets, Tensor[] lengths, int[] numbers, int blank, int reduction, bool zero_infinity,"
    " bool needed) -> (Tensor loss, Tensor history)"
)
LIBRARY.define("ctc_loss_backward(Tensor history, Tensor log_probs, Tensor tangent) -> Tensor")
NONE = 0
"""The reduction that gives a loss for each sequence."""


class Call(NamedTuple):
    log_probs: Any
    targets: Any
    lengths: list[Any]
    numbers: list[int]
    blank: int
    reduction: int
    zero_infinity: bool


def call_of(arguments: Sequence[Any]) -> Call | None:
    """None where the lengths are of two kinds, which torch refuses."""
    log_probs, targets, *lengths, blank, reduction, zero_infinity = arguments
    if all(isinstance(each, torch.Tensor) for each in lengths):
        return Call(log_probs, targets, lengths, [], blank, reduction, zero_infinity)
    if all(isinstance(each, (list, tuple)) for each in lengths) and len(lengths[0]) == len(lengths[1]):
        return Call(log_probs, targets, [], [*lengths[0], *lengths[1]], blank, reduction, zero_infinity)
    return None


def fits(call: Call) -> bool:
    """Whether it takes these operands, but for what the lengths hold: others are for torch to complain about."""
    return (
        call.log_probs.dtype in (torch.float32, torch.float64)
        and call.log_probs.dim() in (2, 3)
        and call.log_probs.numel() > 0
        and call.targets.dtype in (torch.int32, torch.int64)
        and call.reduction in (0, 1, 2)
    )


def shape(call: Call) -> torch.Tensor:
    is_batch = call.log_probs.dim() == 3
    return call.log_probs.new_empty(call.log_probs.shape[1:2] if call.reduction == NONE and is_batch else ())


class _Described(torch.autograd.Function):
    """A loss without contents that has a history."""

    @staticmethod
    def forward(ctx: Any, call: Call, log_probs: torch.Tensor) -> torch.Tensor:
        ctx.gradient = _gradient_of(log_probs)
        return shape(call)

    @staticmethod
    def backward(ctx: Any, tangent: torch.Tensor) -> tuple[None, torch.Tensor]:
        return None, torch.empty_like(ctx.gradient)


def described(call: Call) -> torch.Tensor:
    """The loss on meta tensors, as autograd sees it."""
    return _Described.apply(call, call.log_probs)


def _forward(log_probs: torch.Tensor, targets: torch.Tensor, lengths: Any, numbers: Any, *rest: Any) -> tuple[torch.Tensor, ...]:
    *options, needed = rest
    count = len(numbers) // 2
    given = lengths or (list(numbers[:count]), list(numbers[count:]))
    history = log_probs.new_empty(1)
    leaf = log_probs.detach().requires_grad_(needed)
    with torch.set_grad_enabled(needed):
        loss = torch.ctc_loss(leaf, targets, *given, *options)
    if needed:
        history.recorded = loss, leaf  # type: ignore[attr-defined]
    return loss.detach(), history


def _forward_meta(log_probs: torch.Tensor, targets: torch.Tensor, lengths: Any, numbers: Any, *rest: Any) -> tuple[torch.Tensor, ...]:
    return shape(Call(log_probs, targets, lengths, numbers, *rest[:-1])), log_probs.new_empty(1)


def _backward(history: torch.Tensor, log_probs: torch.Tensor, tangent: torch.Tensor) -> torch.Tensor:
    loss, leaf = history.recorded  # type: ignore[attr-defined]
    (gradient,) = torch.autograd.grad(loss, leaf, tangent, retain_graph=True)
    return gradient.contiguous()


def _backward_meta(history: torch.Tensor, log_probs: torch.Tensor, tangent: torch.Tensor) -> torch.Tensor:
    return _gradient_of(log_probs)


def _gradient_of(log_probs: torch.Tensor) -> torch.Tensor:
    """Torch's kernels make it row by row, however the operand lies."""
    return torch.empty_like(log_probs, memory_format=torch.contiguous_format)


def ctc_loss(*arguments: Any) -> torch.Tensor:
    """What a graph calls: torch's function, all arguments by position, which on meta tensors says its size."""
    call = call_of(arguments)
    if call is not None and call.log_probs.is_meta and fits(call):
        return described(call)
    return torch.ctc_loss(*arguments)


LIBRARY.impl("ctc_loss", _forward, "CompositeExplicitAutograd")
LIBRARY.impl("ctc_loss", _forward_meta, "Meta")
LIBRARY.impl("ctc_loss_backward", _backward, "CompositeExplicitAutograd")
LIBRARY.impl("ctc_loss_backward", _backward_meta, "Meta")

FORWARD = torch.ops.dynascope.ctc_loss.default
BACKWARD = torch.ops.dynascope.ctc_loss_backward.default
