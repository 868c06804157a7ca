"""Losses and their gradients out of arithmetic and one reduction.

Each element's loss is rounded to its type before the reduction, as ATen does, which makes a tensor of them.
"""

from __future__ import annotations

from typing import Any

import torch

from dynascope.grad.build import StepBuilder as B
from dynascope.grad.decompose.pointwise import floats_only, one_minus, widened
from dynascope.grad.decompose.tables import decomposing
from dynascope.grad.tape import Value

aten = torch.ops.aten
TABLE: dict[Any, Any] = {}
decomposes = decomposing(TABLE)


@decomposes(aten.mse_loss.default)
@floats_only
def mse_loss(b: B, x: Value, target: Value, reduction: int = 1) -> Value:
    difference = b.sub(x, target)
    return reduce_loss(b, b.mul(difference, difference), reduction)


def reduce_loss(b: B, loss: Value, reduction: int) -> Value:
    if reduction == 0:
        return loss
    return b.mean(loss, list(range(loss.rank))) if reduction == 1 else b.sum(loss, list(range(loss.rank)))


@decomposes(aten.mse_loss_backward.default)
@floats_only
def mse_loss_backward(b: B, gradient: Value, x: Value, target: Value, reduction: int) -> Value:
    return b.mul(b.mul(b.sub(x, target), 2.0 * _share(x, reduction)), gradient)


def _share(x: Value, reduction: int) -> float:
    """What the gradient of the reduced loss is of each element's."""
    return 1.0 / x.layout.element_count if reduction == 1 else 1.0


@decomposes(aten.smooth_l1_loss.default)
@floats_only
def smooth_l1_loss(b: B, x: Value, target: Value, reduction: int = 1, beta: float = 1.0) -> Any:
    if beta <= 0 or x.dtype != target.dtype:
        return NotImplemented
    return reduce_loss(b, _smooth_l1(b, x, target, beta), reduction)


@widened
def _smooth_l1(b: B, x: Value, target: Value, beta: float) -> Value:
    distance = b.abs(b.sub(x, target))
    near = b.div(b.mul(b.mul(distance, 0.5), distance), beta)
    return b.where(b.compare("lt", distance, beta), near, b.sub(distance, 0.5 * beta))


@decomposes(aten.smooth_l1_loss_backward.default)
@widened
@floats_only
def smooth_l1_loss_backward(b: B, gradient: Value, x: Value, target: Value, reduction: int, beta: float) -> Any:
    if beta <= 0 or x.dtype != target.dtype:
        return NotImplemented
    return _within(b, b.sub(x, target), beta, b.mul(gradient, _share(x, reduction)), 1.0, 1.0 / beta)


def _within(b: B, distance: Value, bound: float, gradient: Value, outer: float, inner: float) -> Value:
    """A slope that grows with the distance until that reaches `bound`, on both sides."""
    far = gradient if outer == 1.0 else b.mul(gradient, outer)
    near = b.mul(distance, gradient)
    above = b.where(b.compare("ge", distance, bound), far, near if inner == 1.0 else b.mul(near, inner))
    return b.where(b.compare("le", distance, -bound), b.neg(far), above)


@decomposes(aten.huber_loss.default)
@floats_only
def huber_loss(b: B, x: Value, target: Value, reduction: int = 1, delta: float = 1.0) -> Any:
    if delta <= 0 or x.dtype != target.dtype:
        return NotImplemented
    return reduce_loss(b, _huber(b, x, target, delta), reduction)


@widened
def _huber(b: B, x: Value, target: Value, delta: float) -> Value:
    distance = b.abs(b.sub(x, target))
    far = b.mul(b.sub(distance, 0.5 * delta), delta)
    return b.where(b.compare("le", distance, delta), b.mul(b.mul(distance, 0.5), distance), far)


@decomposes(aten.huber_loss_backward.default)
@widened
@floats_only
def huber_loss_backward(b: B, gradient: Value, x: Value, target: Value, reduction: int, delta: float) -> Any:
    if delta <= 0 or x.dtype != target.dtype:
        return NotImplemented
    return _within(b, b.sub(x, target), delta, b.mul(gradient, _share(x, reduction)), delta, 1.0)


@decomposes(aten.binary_cross_entropy_with_logits.default)
@floats_only
def binary_cross_entropy_with_logits(
    b: B, x: Value, target: Value, weight: Value | None = None, positive: Value | None = None, reduction: int = 1
) -> Any:
    """Each step rounds, as ATen's do: it is a composition there."""
    if x.dtype != target.dtype:
        return NotImplemented
    logarithm = b.op(aten.log_sigmoid_forward.default, x)[0]
    if positive is not None:
        logarithm = b.mul(logarithm, b.add(b.mul(b.sub(positive, 1), target), 1))
    loss = b.sub(b.mul(one_minus(b, target), x), logarithm)
    return reduce_loss(b, loss if weight is None else b.mul(loss, weight), reduction)


@decomposes(aten.soft_margin_loss.default)
@floats_only
def soft_margin_loss(b: B, x: Value, target: Value, reduction: int = 1) -> Any:
    if x.dtype != target.dtype:
        return NotImplemented
    return reduce_loss(b, b.log1p(b.exp(b.mul(b.neg(x), target))), reduction)


@decomposes(aten.soft_margin_loss_backward.default)
@floats_only
def soft_margin_loss_backward(b: B, gradient: Value, x: Value, target: Value, reduction: int) -> Any:
    if x.dtype != target.dtype:
        return NotImplemented
    power = b.exp(b.mul(b.neg(target), x))
    slope = b.neg(b.div(b.mul(target, power), b.add(power, 1)))
    return b.mul(b.mul(slope, gradient), _share(x, reduction))
