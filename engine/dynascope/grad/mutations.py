"""In-place operators whose new contents are not simply their functional form's result.

y.copy_(x)     y := x, converted and expanded to y
y.zero_()      y := full(0)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from dynascope.grad import fused_optimizers, loss_scaling
from dynascope.grad.decompose.normalize import batch_norm
from dynascope.grad.decompose.pointwise import wide
from dynascope.grad.eager_layouts import batch_norm_strides
from dynascope.grad.metadata import call_meta_kernel
from dynascope.grad.reasons import DifferentiationRefused, OperatorFailed, UnsupportedMutation
from dynascope.grad.shapes import ShapeMismatch, broadcast
from dynascope.grad.tape import Value
from dynascope.grad.views import ViewRecipe, with_strides
from dynascope.sizes import hints_of

if TYPE_CHECKING:
    from dynascope.grad.record import Recorder

aten = torch.ops.aten


def store(recorder: Recorder, target: torch.Tensor, value: Value, operation: str) -> None:
    """`target` now holds `value`, converted to its dtype. Sizes must agree."""
    if recorder.observe(tuple(target.shape)) != value.sizes:
        raise DifferentiationRefused(
            UnsupportedMutation(operation, f"the result has sizes {list(value.sizes)}, the tensor {list(target.shape)}")
        )
    if value.dtype is not target.dtype:
        if not torch.can_cast(value.dtype, target.dtype):
            raise DifferentiationRefused(OperatorFailed(operation, f"{value.dtype} cannot be stored as {target.dtype}"))
        value = recorder.builder.convert(value, target.dtype)
    recorder.memory.write(target, value, operation)


def _copy(recorder: Recorder, target: torch.Tensor, source: torch.Tensor, *_: Any, **__: Any) -> torch.Tensor:
    builder, value, present = recorder.builder, recorder.value(source), recorder.value(target)
    conversions: dict[str, Any] = {}
    if value.dtype is not target.dtype:
        conversions["dtype"] = target.dtype
    if value.device != present.device:
        conversions["device"] = present.device
    if conversions:
        value = builder.op(aten._to_copy.default, value, **conversions)
    sizes = recorder.observe(tuple(target.shape))
    if value.sizes != sizes:
        try:
            fits = broadcast(value.sizes, sizes) == sizes
        except ShapeMismatch:
            fits = False
        if not fits:
            raise DifferentiationRefused(OperatorFailed("copy_", f"sizes {list(value.sizes)} do not fit {list(sizes)}"))
        while value.rank > len(sizes):
            value = builder.op(aten.select.int, value, 0, 0)
        value = builder.op(aten.expand.default, value, list(sizes))
    recorder.memory.write(target, value, "copy_")
    return target


def _fill(recorder: Recorder, target: torch.Tensor, number: Any) -> torch.Tensor:
    present = recorder.value(target)
    value = recorder.builder.full(present.sizes, recorder.values(number), like=present)
    recorder.memory.write(target, value, "fill_")
    return target


def _zero(recorder: Recorder, target: torch.Tensor) -> torch.Tensor:
    return _fill(recorder, target, False if target.dtype is torch.bool else 0)


def _fill_from_tensor(recorder: Recorder, target: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    return _copy(recorder, target, value)


def _resize(recorder: Recorder, target: torch.Tensor, sizes: Any, **_: Any) -> torch.Tensor:
    if list(target.shape) != hints_of(list(sizes)):
        raise DifferentiationRefused(UnsupportedMutation("resize_", "it changes the size of a tensor that exists"))
    return target


def _restride(view_operator: Any) -> Callable[..., torch.Tensor]:
    """`t_`, `unsqueeze_` and the like: the tensor becomes a view of what it was; no element changes."""

    def apply(recorder: Recorder, target: torch.Tensor, *arguments: Any) -> torch.Tensor:
        source = target.detach()
        view = call_meta_kernel(view_operator, (source, *arguments), {})
        recorder.memory.add_view(view, source, ViewRecipe(view_operator, arguments))
        target.as_strided_(view.shape, view.stride(), view.storage_offset())
        return target

    return apply


def _batch_norm(
    recorder: Recorder,
    x: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    running_mean: torch.Tensor | None,
    running_variance: torch.Tensor | None,
    training: bool,
    momentum: float,
    epsilon: float,
) -> Any:
    """Batch normalisation writes its running statistics though its schema does not say so."""
    b = recorder.builder
    if aten.native_batch_norm_backward.default not in b.decompositions:
        statistics = running_mean, running_variance
        return _whole_batch_norm(recorder, (x, weight, bias), statistics, (training, momentum, epsilon))
    source, scale_by, shift_by = recorder.values([x, weight, bias])
    dtype = wide(source.dtype)

    def normalized(mean: Value, scale: Value) -> Value:
        return with_strides(b, batch_norm(b, source, scale_by, shift_by, mean, scale), batch_norm_strides(source))

    if not training:
        mean, variance = (b.convert(recorder.value(t), dtype) for t in (running_mean, running_variance))  # type: ignore[arg-type]
        scale = b.rsqrt(b.add(variance, epsilon))
        out = normalized(mean, scale)
        if source.device.type == "cpu":
            nothing = b.full([0], 0, like=source, dtype=source.dtype)
            return recorder.wrap((out, nothing, nothing))
        return recorder.wrap((out, b.op(aten.clone.default, mean), scale))  # what it normalised with, as in training
    others = [d for d in range(source.rank) if d != 1]
    variance, mean = b.var_mean(b.convert(source, dtype), others, correction=0, keepdim=False)
    scale = b.rsqrt(b.add(variance, epsilon))
    count = source.layout.element_count // max(source.sizes[1], 1)
    unbiased = b.mul(variance, count / max(count - 1, 1))
    for running, new in ((running_mean, mean), (running_variance, unbiased)):
        if running is not None:
            present = recorder.value(running)
            blended = b.add(b.mul(new, momentum), b.mul(b.convert(present, dtype), 1 - momentum))
            store(recorder, running, b.convert(blended, present.dtype), "batch_norm")
    given = next((value for value in recorder.values([weight, bias, running_mean]) if value is not None), source)
    kept = given.dtype if source.device.type == "cpu" else dtype
    return recorder.wrap((normalized(mean, scale), b.convert(mean, kept), b.convert(scale, kept)))


def _whole_batch_norm(recorder: Recorder, operands: tuple, statistics: tuple, rest: tuple) -> Any:
    """As an operator of its own, which gives the new statistics as results."""
    values, running = recorder.values(operands), recorder.values(statistics)
    if not rest[0] or None in running:
        return recorder.wrap(recorder.builder.op(aten.native_batch_norm.default, *values, *running, *rest))
    *results, mean, variance = recorder.builder.op(
        aten._native_batch_norm_legit_functional.default, *values, *running, *rest
    )
    store(recorder, statistics[0], mean, "batch_norm")
    store(recorder, statistics[1], variance, "batch_norm")
    return recorder.wrap(tuple(results))


MUTATIONS: dict[Any, Callable[..., Any]] = {
    aten.copy_.default: _copy,
    aten.zero_.default: _zero,
    aten.fill_.Scalar: _fill,
    aten.fill_.Tensor: _fill_from_tensor,
    aten.resize_.default: _resize,
    aten.native_batch_norm.default: _batch_norm,
    aten._native_batch_norm_legit.default: _batch_norm,
    aten.t_.default: _restride(aten.t.default),
    aten.transpose_.default: _restride(aten.transpose.int),
    aten.unsqueeze_.default: _restride(aten.unsqueeze.default),
    aten.squeeze_.default: _restride(aten.squeeze.default),
    aten.squeeze_.dim: _restride(aten.squeeze.dim),
    aten.squeeze_.dims: _restride(aten.squeeze.dims),
    **fused_optimizers.rules(store),
    aten._amp_foreach_non_finite_check_and_unscale_.default: loss_scaling.unscale(store),
    aten._amp_update_scale_.default: loss_scaling.update_scale(store),
}
"""By operator: `rule(recorder, *arguments, **keywords)` writes to memory and returns what the operator returns."""
