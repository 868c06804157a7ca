"""The operators of loss scaling (`torch.amp.GradScaler`) as what they compute.

    _amp_foreach_non_finite_check_and_unscale_([g, ...], found, inverse)     found := 1 where a g is not finite; g := g * inverse
    _amp_update_scale_(scale, tracker, found, growth, backoff, interval)     scale := scale * backoff where found; ...

Source: ATen's native/cuda/AmpKernels.cu and native/AmpKernels.cpp: halves are multiplied in float32, the scale by factors of float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import torch

from dynascope.grad.build import StepBuilder
from dynascope.grad.decompose.pointwise import wide
from dynascope.grad.tape import Value

if TYPE_CHECKING:
    from dynascope.grad.record import Recorder

aten = torch.ops.aten
Store = Callable[["Recorder", torch.Tensor, Value, str], None]


def unscale(store: Store) -> Callable[..., None]:
    def apply(recorder: Recorder, gradients: Sequence[torch.Tensor], found: torch.Tensor, inverse: torch.Tensor) -> None:
        b, name = recorder.builder, "_amp_foreach_non_finite_check_and_unscale_"
        factor, before = recorder.values([inverse, found])
        is_bad = None
        for tensor in gradients:
            value = recorder.value(tensor)
            gradient = b.convert(value, wide(value.dtype))
            one = b.op(aten.any.default, b.op(aten.logical_not.default, _is_finite(b, gradient)))
            is_bad = one if is_bad is None else b.op(aten.logical_or.default, is_bad, one)
            store(recorder, tensor, b.mul(gradient, b.convert(factor, gradient.dtype)), name)
        if is_bad is not None:
            store(recorder, found, b.op(aten.where.self, is_bad, b.full(before.sizes, 1.0, like=before), before), name)

    return apply


def update_scale(store: Store) -> Callable[..., torch.Tensor]:
    def apply(
        recorder: Recorder, scale: torch.Tensor, tracker: torch.Tensor, found: torch.Tensor, growth: float, backoff: float, interval: int
    ) -> torch.Tensor:
        b, name = recorder.builder, "_amp_update_scale_"
        present, steps, seen = recorder.values([scale, tracker, found])
        is_bad, steps, exact = b.compare("ne", seen, 0.0), b.add(steps, 1), b.convert(present, torch.float64)
        is_due = b.compare("eq", steps, interval)
        larger = b.convert(b.mul(exact, growth), present.dtype)
        fits = b.op(aten.logical_and.default, is_due, _is_finite(b, larger))
        smaller = b.convert(b.mul(exact, backoff), present.dtype)
        begins_again = b.op(aten.logical_or.default, is_bad, is_due)
        none = b.full(steps.sizes, 0, like=steps)
        store(recorder, scale, b.op(aten.where.self, is_bad, smaller, b.op(aten.where.self, fits, larger, present)), name)
        store(recorder, tracker, b.op(aten.where.self, begins_again, none, steps), name)
        return scale

    return apply


def _is_finite(b: StepBuilder, value: Value) -> Value:
    """False of NaN too."""
    return b.compare("lt", b.op(aten.abs.default, value), math.inf)
