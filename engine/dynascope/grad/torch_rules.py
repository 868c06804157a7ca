"""Torch functions that choose by device, with the choice made for the device the program runs on."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from dynascope.grad import ctc, recurrent, subscripts
from dynascope.grad.attention import attention
from dynascope.grad.eager_layouts import suggested_format
from dynascope.grad.shapes import is_dense

if TYPE_CHECKING:
    from dynascope.grad.record import Recorder

aten = torch.ops.aten
functional = torch.nn.functional


def _dropout(
    recorder: Recorder, input: torch.Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Any:
    """CUDA has a fused kernel of its own, with its own random numbers; with numbers from a seed it serves every device."""
    is_fused = recorder.draws_seeds or recorder.value(input).device.type == "cuda"
    if is_fused and not inplace and training and 0 < p < 1 and input.numel():
        return aten.native_dropout(input, p, True)[0]
    return NotImplemented


def _torch_dropout(recorder: Recorder, input: torch.Tensor, p: float, train: bool) -> Any:
    return _dropout(recorder, input, p, train)


def _to(recorder: Recorder, tensor: torch.Tensor, *arguments: Any, **keywords: Any) -> Any:
    """`.to(device)` of a tensor that is there already returns the tensor itself, unless a copy is asked for."""
    if not isinstance(tensor, torch.Tensor):
        return NotImplemented
    present = recorder.value(tensor).device
    arguments = tuple(_device_of(recorder, a) for a in arguments)
    keywords = {name: _device_of(recorder, a) for name, a in keywords.items()}
    wanted = keywords.get("device") or next((a for a in arguments if isinstance(a, torch.device)), None)
    tensors = [a for a in (*arguments, *keywords.values()) if isinstance(a, torch.Tensor)]
    if tensors:
        wanted, keywords = (
            recorder.value(tensors[0]).device,
            {k: v for k, v in keywords.items() if k != "other"} | {"dtype": tensors[0].dtype},
        )
        arguments = tuple(a for a in arguments if not isinstance(a, torch.Tensor))
    arguments = tuple(a for a in arguments if not isinstance(a, torch.device))
    keywords.pop("device", None)
    if wanted is not None and _same_device(wanted, present):
        wanted = None
    if wanted is None:
        if not arguments and not keywords:
            return tensor
        return tensor.to(*arguments, **keywords)
    dtype = keywords.get("dtype") or next((a for a in arguments if isinstance(a, torch.dtype)), tensor.dtype)
    return _Move.apply(tensor, wanted, present, dtype)


def _device_of(recorder: Recorder, argument: Any) -> Any:
    return torch.device(argument) if isinstance(argument, str) else argument


def _same_device(wanted: torch.device, present: torch.device) -> bool:
    return wanted.type == present.type and wanted.index in (None, present.index)


class _Move(torch.autograd.Function):
    """A copy to another device; the gradient goes back. Autograd's own formula would see only meta tensors."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, wanted: torch.device, present: torch.device, dtype: torch.dtype) -> Any:
        ctx.places = present, tensor.dtype
        return aten._to_copy(tensor, device=wanted, dtype=dtype)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        device, dtype = ctx.places
        return aten._to_copy(gradient, device=device, dtype=dtype), None, None, None


def _cuda(recorder: Recorder, tensor: torch.Tensor, device: Any = None, *_: Any, **__: Any) -> Any:
    return _to(recorder, tensor, torch.device("cuda" if device is None else device))


def _cpu(recorder: Recorder, tensor: torch.Tensor, **_: Any) -> Any:
    return _to(recorder, tensor, torch.device("cpu"))


class _Activation(torch.autograd.Function):
    """`silu` and `mish` with their own backward operators: for meta tensors autograd writes formulas out, rounding each step. So does eager
    where the gradient is differentiated again: the operators have no derivative."""

    @staticmethod
    def forward(ctx: Any, input: torch.Tensor, name: str, recorder: Recorder) -> torch.Tensor:
        ctx.save_for_backward(input)
        ctx.activation, ctx.recorder, ctx.known_as = name, recorder, f"{name.capitalize()}Backward0"
        return getattr(aten, name)(input)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
        if torch.is_grad_enabled():
            (input,) = ctx.saved_tensors
            return WRITTEN_OUT[ctx.activation](gradient, input), None, None
        operator = getattr(aten, f"{ctx.activation}_backward").default
        values = [ctx.recorder.value(tensor) for tensor in (gradient, *ctx.saved_tensors)]
        return ctx.recorder.wrap(ctx.recorder.builder.op(operator, *values)), None, None


def _silu_backward(gradient: torch.Tensor, input: torch.Tensor) -> torch.Tensor:
    sigmoid = input.sigmoid()
    return gradient * sigmoid * (1.0 + input * (1.0 - sigmoid))


def _mish_backward(gradient: torch.Tensor, input: torch.Tensor) -> torch.Tensor:
    tanh, sigmoid = torch.nn.functional.softplus(input).tanh(), input.sigmoid()
    return gradient * (tanh + input * sigmoid * (1.0 - tanh * tanh))


WRITTEN_OUT = {"silu": _silu_backward, "mish": _mish_backward}


def _activation(name: str) -> Callable[..., Any]:
    def apply(recorder: Recorder, input: torch.Tensor, inplace: bool = False) -> Any:
        if inplace or not isinstance(input, torch.Tensor) or not input.is_floating_point():
            return NotImplemented
        return _Activation.apply(input, name, recorder)

    return apply


class _GroupNorm(torch.autograd.Function):
    """Group norm of images that lie channels last: the CPU keeps them so, also in the backward pass."""

    @staticmethod
    def forward(ctx: Any, input: torch.Tensor, weight: Any, bias: Any, format: torch.memory_format, sizes: tuple) -> torch.Tensor:
        result, mean, spread = aten.native_group_norm(input, weight, bias, *sizes)
        ctx.save_for_backward(input, weight, mean, spread)
        ctx.format, ctx.sizes, ctx.known_as = format, sizes, "NativeGroupNormBackward0"
        return result

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
        input, weight, mean, spread = ctx.saved_tensors
        gradient = gradient.contiguous(memory_format=ctx.format)
        needed = ctx.needs_input_grad[:3]
        # The input's is always asked for: without it the CPU's kernel for channels last writes to no memory, and the process ends.
        found = aten.native_group_norm_backward(gradient, input, mean, spread, weight, *ctx.sizes[:-1], [True, *needed[1:]])
        return *(each if wanted else None for each, wanted in zip(found, needed, strict=True)), None, None


def _group_norm(
    recorder: Recorder, input: torch.Tensor, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5, *_: Any
) -> Any:
    """On the CPU alone torch's own function leaves channels last as they are; of meta tensors it makes a contiguous copy."""
    if not isinstance(input, torch.Tensor) or not input.numel() or recorder.value(input).device.type != "cpu":
        return NotImplemented
    format = suggested_format(recorder.value(input))
    if format is None:
        return NotImplemented
    if input.shape[1] % num_groups or any(each is not None and each.shape != input.shape[1:2] for each in (weight, bias)):
        return NotImplemented
    weight, bias = (None if each is None else each.contiguous() for each in (weight, bias))
    sizes = (input.shape[0], input.shape[1], math.prod(input.shape[2:]), num_groups, eps)
    return _GroupNorm.apply(input.contiguous(memory_format=format), weight, bias, format, sizes)


class _Chosen(torch.autograd.Function):
    """One element of a whole tensor, which all equal to it share the gradient of. The CPU fills zeros where they stand; what
    autograd writes for meta tensors multiplies by zeros instead, as CUDA does: NaN where nothing is equal any more."""

    @staticmethod
    def forward(ctx: Any, input: torch.Tensor, name: str) -> torch.Tensor:
        result = getattr(aten, name).default(input)
        ctx.save_for_backward(input, result)
        ctx.known_as = f"{name.capitalize()}Backward1" if name in ("max", "min") else f"{name.capitalize()}Backward0"
        return result

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
        input, value = ctx.saved_tensors
        mask = (input.isnan() & value.isnan()) | (input == value)
        zeros = gradient.new_zeros(input.shape, dtype=input.dtype)
        return zeros.masked_fill(mask, gradient / mask.sum()), None


def _choosing(name: str) -> Callable[..., Any]:
    def apply(recorder: Recorder, input: torch.Tensor, *arguments: Any, **keywords: Any) -> Any:
        if arguments or keywords or not isinstance(input, torch.Tensor) or not input.requires_grad:
            return NotImplemented
        return _Chosen.apply(input, name) if recorder.value(input).device.type == "cpu" else NotImplemented

    return apply


class _LaidOutAsInput(torch.autograd.Function):
    """The input; its gradient lies in memory as `zeros_like(input)` does."""

    @staticmethod
    def forward(ctx: Any, input: torch.Tensor) -> torch.Tensor:
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(input)
        return input.view_as(input)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor | None) -> torch.Tensor | None:
        (input,) = ctx.saved_tensors
        return None if gradient is None else torch.zeros_like(input).copy_(gradient)


def _laid_out_as_input(function: Callable[..., Any], most: int) -> Callable[..., Any]:
    """The gradient of the first of at most so many operands. Eager writes that of reflectors column by column into zeros, and
    divides a product by its factors unless one of them is zero; autograd has other formulas for meta tensors."""

    def apply(recorder: Recorder, input: torch.Tensor, *arguments: Any, **keywords: Any) -> Any:
        is_other = len(arguments) >= most or {"dim", "keepdim", "out"} & keywords.keys()
        if is_other or not isinstance(input, torch.Tensor) or not input.requires_grad:
            return NotImplemented
        return function(_LaidOutAsInput.apply(input), *arguments, **keywords)

    return apply


CHOOSING = ("max", "min", "median", "nanmedian")


def _one_hot(recorder: Recorder, index: torch.Tensor, num_classes: int = -1) -> Any:
    """Torch's own form for meta tensors does not look for classes out of range."""
    if not isinstance(index, torch.Tensor) or index.dtype != torch.int64 or not index.numel():
        return NotImplemented
    if not isinstance(num_classes, int) or num_classes < 0:
        return NotImplemented
    (classes,) = recorder.observe([num_classes])
    made = recorder.wrap(recorder.builder.op(aten.one_hot.default, recorder.value(index), classes))
    for _ in range(_writes_of_one_hot(recorder.device_type_of(index))):
        torch.autograd.graph.increment_version(made)
    return made


@functools.cache
def _writes_of_one_hot(device: str) -> int:
    """How often eager's own form writes to its result, which its version counts: another on each device."""
    with torch.utils._python_dispatch._disable_current_modes(), torch._C.DisableTorchFunction():
        return torch._C._nn.one_hot(torch.zeros(1, dtype=torch.int64, device=device), 1)._version


def _data(recorder: Recorder, tensor: torch.Tensor, name: str) -> Any:
    """`.data` is outside of all recording; what it shares is memory."""
    return tensor.data if name == "data" else NotImplemented


def _deepcopy(recorder: Recorder, tensor: torch.Tensor, _: Any) -> Any:
    """Torch copies the storage, behind its operators. Of one that the tensor fills that is a clone, which counts as written once."""
    if tensor.requires_grad or tensor.storage_offset() or not is_dense(tuple(tensor.shape), tensor.stride()):
        return tensor.__deepcopy__({})
    made = recorder.wrap(recorder.builder.op(aten.clone.default, recorder.value(tensor)))
    torch.autograd.graph.increment_version(made)
    return made


RULES: dict[Any, Callable[..., Any]] = {
    "__deepcopy__": _deepcopy,
    functional.silu: _activation("silu"),
    torch._C._nn.silu: _activation("silu"),
    functional.mish: _activation("mish"),
    torch._C._nn.mish: _activation("mish"),
    functional.one_hot: _one_hot,
    torch._C._nn.one_hot: _one_hot,
    functional.scaled_dot_product_attention: attention,
    torch._C._nn.scaled_dot_product_attention: attention,
    functional.group_norm: _group_norm,
    torch.group_norm: _group_norm,
    functional.dropout: _dropout,
    torch.dropout: _torch_dropout,
    getattr: _data,
    **subscripts.RULES,
    **recurrent.RULES,
    **ctc.RULES,
    **{target: _choosing(name) for name in CHOOSING for target in (name, getattr(torch, name))},
    **{
        target: _laid_out_as_input(function, most)
        for function, most in ((torch.ormqr, 5), (torch.orgqr, 2), (torch.prod, 1))
        for target in (function, function.__name__)
    },
    torch.linalg.householder_product: _laid_out_as_input(torch.linalg.householder_product, 2),
    "to": _to,
    "cuda": _cuda,
    "cpu": _cpu,
}
"""By target: `rule(recorder, *arguments, **keywords)`; NotImplemented where torch's own path is right."""
