"""Fused optimizers (`AdamW(..., fused=True)`, SGD, Adagrad): their one operator for all parameters as what it computes for each.

    _fused_adamw_(p, g, m, v, [], steps, lr=, beta1=, ...)     m := lerp(m, g, 1 - beta1); v := ...; p := p - ...

So a step's updates are kernels of the graph, which write parameters and state where they are; with a loss scaler's `found_inf` they may
keep what was there. The numbers are those of
ATen's native/cuda/fused_adam_utils.cuh: halves are computed in float32, what follows from how many steps were made in float64.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from dynascope.grad.build import StepBuilder
from dynascope.grad.decompose.pointwise import wide
from dynascope.grad.metadata import overloads
from dynascope.grad.numbers import number_of
from dynascope.grad.tape import Value
from dynascope.grad.views import reshape

if TYPE_CHECKING:
    from dynascope.grad.record import Recorder

aten = torch.ops.aten
Tensors = Sequence[torch.Tensor]
Store = Callable[["Recorder", torch.Tensor, Value, str], None]
Rate = float | torch.Tensor


def rules(store: Store) -> dict[Any, Callable[..., None]]:
    """By operator, with a rate that is a number and one that a tensor holds."""
    by_name = {
        "_fused_adamw_": _adam("_fused_adamw_", True, store),
        "_fused_adam_": _adam("_fused_adam_", False, store),
        "_fused_sgd_": _sgd(store),
        "_fused_adagrad_": _adagrad(store),
    }
    return {operator: rule for name, rule in by_name.items() for operator in overloads(name, f"{name}.tensor_lr")}


def _adam(name: str, decouples: bool, store: Store) -> Callable[..., None]:
    def apply(
        recorder: Recorder, parameters: Tensors, gradients: Tensors, means: Tensors, squares: Tensors, largest: Tensors,
        steps: Tensors, *, lr: Rate, beta1: float, beta2: float, weight_decay: float, eps: float, amsgrad: bool, maximize: bool,
        grad_scale: Any = None, found_inf: Any = None,
    ) -> None:  # fmt: skip
        b, rate = recorder.builder, _rate(recorder, lr)
        put = _putting(recorder, store, name, found_inf)

        for at, tensor in enumerate(parameters):
            step, *given = recorder.values([steps[at], tensor, gradients[at], means[at], squares[at]])
            parameter, gradient, mean, square = (b.convert(each, wide(each.dtype)) for each in given)
            gradient = _downhill(recorder, gradients[at], gradient, put, grad_scale, maximize)
            if weight_decay and decouples:
                parameter = b.sub(parameter, _times(b, parameter, _times(b, rate, weight_decay)))
            elif weight_decay:
                gradient = b.add(gradient, b.mul(parameter, weight_decay))
            mean = b.op(aten.lerp.Scalar, mean, gradient, 1 - beta1)
            square = b.add(b.mul(square, beta2), b.mul(b.mul(gradient, gradient), 1 - beta2))
            seen = square
            if amsgrad:
                before = recorder.value(largest[at])
                seen = b.maximum(b.convert(before, wide(before.dtype)), square)
                put(largest[at], before, seen)
            first, second = (_correction(b, beta, step) for beta in (beta1, beta2))
            size = b.div(_as_value(b, rate, first), first)
            spread = b.add(b.div(b.sqrt(seen), b.sqrt(second)), eps)
            put(tensor, given[0], b.sub(parameter, b.mul(b.div(mean, spread), size)))
            put(means[at], given[2], mean)
            put(squares[at], given[3], square)

    return apply


def _sgd(store: Store) -> Callable[..., None]:
    """ATen's native/cuda/FusedSgdKernel.cu: the first step fills the buffers of momentum, whatever they hold."""

    def apply(
        recorder: Recorder, parameters: Tensors, gradients: Tensors, buffers: Tensors, *, weight_decay: float, momentum: float,
        lr: Rate, dampening: float, nesterov: bool, maximize: bool, is_first_step: bool, grad_scale: Any = None, found_inf: Any = None,
    ) -> None:  # fmt: skip
        b, rate = recorder.builder, _rate(recorder, lr)
        put = _putting(recorder, store, "_fused_sgd_", found_inf)
        for at, tensor in enumerate(parameters):
            given = recorder.values([tensor, gradients[at]])
            parameter, gradient = (b.convert(each, wide(each.dtype)) for each in given)
            gradient = _downhill(recorder, gradients[at], gradient, put, grad_scale, maximize)
            if weight_decay:
                gradient = b.add(gradient, b.mul(parameter, weight_decay))
            if momentum:
                before = recorder.value(buffers[at])
                moved = gradient
                if not is_first_step:
                    kept = b.mul(b.convert(before, wide(before.dtype)), momentum)
                    moved = b.add(kept, b.mul(gradient, 1 - dampening))
                put(buffers[at], before, moved)
                gradient = b.add(gradient, b.mul(moved, momentum)) if nesterov else moved
            put(tensor, given[0], b.sub(parameter, _times(b, gradient, rate)))

    return apply


def _adagrad(store: Store) -> Callable[..., None]:
    """ATen's native/cpu/FusedAdagradKernel.cpp: the rate of a step follows from how many were made, in float64."""

    def apply(
        recorder: Recorder, parameters: Tensors, gradients: Tensors, sums: Tensors, steps: Tensors, *, lr: Rate, lr_decay: float,
        weight_decay: float, eps: float, maximize: bool, grad_scale: Any = None, found_inf: Any = None,
    ) -> None:  # fmt: skip
        b, rate = recorder.builder, _rate(recorder, lr)
        put = _putting(recorder, store, "_fused_adagrad_", found_inf)
        for at, tensor in enumerate(parameters):
            step, *given = recorder.values([steps[at], tensor, gradients[at], sums[at]])
            parameter, gradient, total = (b.convert(each, wide(each.dtype)) for each in given)
            gradient = _downhill(recorder, gradients[at], gradient, put, grad_scale, maximize)
            if weight_decay:
                gradient = b.add(gradient, b.mul(parameter, weight_decay))
            total = b.add(total, b.mul(gradient, gradient))
            slower = b.add(b.mul(b.sub(b.convert(step, torch.float64), 1.0), lr_decay), 1.0)
            size = b.convert(b.div(_as_value(b, rate, slower), slower), parameter.dtype)
            put(tensor, given[0], b.sub(parameter, b.div(b.mul(gradient, size), b.add(b.sqrt(total), eps))))
            put(sums[at], given[2], total)

    return apply


Put = Callable[[torch.Tensor, Value, Value], None]


def _putting(recorder: Recorder, store: Store, name: str, found_inf: Any) -> Put:
    """Writes what a tensor becomes, or what it was where the loss scaler found that gradients overflowed."""
    b = recorder.builder
    leaves_out = None if found_inf is None else b.compare("eq", recorder.value(found_inf), 1.0)

    def put(target: torch.Tensor, before: Value, after: Value) -> None:
        if leaves_out is not None:
            after = b.op(aten.where.self, leaves_out, b.convert(before, after.dtype), after)
        store(recorder, target, after, name)

    return put


def _downhill(recorder: Recorder, target: torch.Tensor, gradient: Value, put: Put, grad_scale: Any, maximize: bool) -> Value:
    """The gradient without the loss's scale, which is written where the gradient is; turned round where the loss is to grow."""
    b = recorder.builder
    if grad_scale is not None:
        before, gradient = gradient, b.div(gradient, b.convert(recorder.value(grad_scale), gradient.dtype))
        put(target, before, gradient)
    return b.neg(gradient) if maximize else gradient


def _rate(recorder: Recorder, lr: Rate) -> Any:
    """A number, or in float64 what a tensor holds."""
    if not isinstance(lr, torch.Tensor):
        return number_of(lr)
    rate = recorder.builder.convert(recorder.value(lr), torch.float64)
    return reshape(recorder.builder, rate, ()) if rate.rank else rate


def _as_value(b: StepBuilder, rate: Any, like: Value) -> Value:
    return rate if isinstance(rate, Value) else b.full([], rate, like=like)


def _times(b: StepBuilder, factor: Any, rate: Any) -> Any:
    """Their product, in the type of the first where it is a value."""
    if not isinstance(factor, Value):
        return factor * rate
    return b.mul(factor, b.convert(rate, factor.dtype) if isinstance(rate, Value) else rate)


def _correction(b: StepBuilder, beta: float, step: Value) -> Value:
    power = b.op(aten.pow.Scalar, beta, b.convert(step, torch.float64))
    return b.op(aten.rsub.Scalar, power, 1.0)
