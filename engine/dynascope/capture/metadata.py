"""Metadata of tensors: the meta tensor that stands for a real one, and where results of operations live.

meta_of(real)                      same sizes, strides, type, requires_grad; no memory
on_meta("cuda:0")                  every device that an operation is told becomes meta
result_device(...)                 the true device of a result, which the meta tensor loses
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch.overrides import _get_current_function_mode_stack
from torch.utils._device import DeviceContext

from dynascope.autograd_functions.awaited_histories import is_leaf_of_another, is_made
from dynascope.meta_kernels import fake_quantization, margin_losses  # noqa: F401 (they register them)

META = torch.device("meta")
"""Where capture's own tensors live. A program's tensor there is told apart by where it comes from: it is left alone."""
QUANTIZED = frozenset((torch.quint8, torch.qint8, torch.qint32, torch.quint4x2, torch.quint2x4))
CPU = torch.device("cpu")
DEVICE_METHODS = frozenset(
    {"to", "cuda", "cpu", "new_tensor", "new_empty", "new_zeros", "new_ones", "new_full", "type"}
)


def meta_of(tensor: torch.Tensor) -> torch.Tensor:
    """A meta tensor with the metadata of a strided tensor. A leaf if the tensor is one; if it requires grad and is a view, one
    that autograd lets be written where it lets the tensor."""
    meta = torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device=META)
    if not tensor.requires_grad:
        with torch.no_grad():
            return _as_lazy(meta, tensor)
    with torch.enable_grad():
        if tensor.is_leaf or (tensor._is_view() and tensor._base.is_leaf):
            with torch.no_grad():
                meta = _as_lazy(meta, tensor)
            if is_leaf_of_another(tensor):
                meta = torch.ops.aten.alias(meta)
                torch._C._autograd._set_creation_meta(meta, torch._C._autograd._get_creation_meta(tensor))
                return meta.requires_grad_()
            meta.requires_grad_()
        else:
            meta.copy_(torch.empty((), dtype=tensor.dtype, device=META, requires_grad=True))
            meta = _as_lazy(meta, tensor)  # a view, which would not be written where it was made without gradients
        if tensor._is_view() and (not tensor.is_leaf or tensor._base.requires_grad):
            with torch.set_grad_enabled(not tensor.is_leaf):  # one made without gradients has no history, but a base that has
                meta = torch.ops.aten.alias(meta)
            torch._C._autograd._set_creation_meta(meta, torch._C._autograd._get_creation_meta(tensor))
    return meta


def _as_lazy(meta: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
    """With the conjugate and negative bits of `tensor`: what its elements are read as."""
    meta = meta.conj() if tensor.is_conj() else meta
    return torch._neg_view(meta) if tensor.is_neg() else meta


def can_require_grad(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def more_than_strides(tensor: torch.Tensor) -> str | None:
    """What a tensor is that has more to it than elements at sizes and strides; None for the usual kind."""
    if tensor.is_nested:
        return "nested tensor"
    if torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        return "tensor of one of torch's transforms"
    if hasattr(tensor, "has_names") and tensor.has_names():  # until torch 2.12
        return "named tensor"
    if tensor.is_quantized or tensor.dtype in QUANTIZED:  # a meta kernel may forget all of it but the dtype
        return "quantized tensor"
    if tensor.requires_grad and not can_require_grad(tensor):  # as an integer view that was filled does
        return "tensor of integers that requires grad"
    if tensor.requires_grad and tensor.is_inference() and torch.is_grad_enabled():  # autograd records some of what is done with it
        return "inference tensor that requires grad"
    if tensor.is_inference() == _counts_writes(tensor):  # `x.data` of an inference tensor, or what got the memory of one by it
        return "half an inference tensor"
    if tensor.requires_grad and not _has_history(tensor):
        return "view whose history cannot be told"
    return None if tensor.layout is torch.strided else f"{str(tensor.layout).removeprefix('torch.')} tensor"


def _counts_writes(tensor: torch.Tensor) -> bool:
    """Whether it has a version, as only tensors have that autograd may keep."""
    try:
        _ = tensor._version
    except RuntimeError:
        return False
    return True


def _has_history(tensor: torch.Tensor) -> bool:
    """Whether autograd can say how it came about. Not for a view made without gradients whose base was written with them. One made as
    usual is not asked, because that would give it its history (`awaits_history`)."""
    if not tensor._is_view() or is_made(tensor, "DEFAULT"):
        return True
    try:
        _ = tensor.grad_fn
    except RuntimeError:
        return False
    return True


def on_meta(value: Any) -> Any:
    """The same argument with devices replaced by meta."""
    return META if isinstance(value, torch.device) else value


def default_device() -> torch.device:
    """Where factories put tensors. torch's own function of the name makes a tensor to see, which no mode reaches here."""
    context = next((m for m in reversed(_get_current_function_mode_stack()) if isinstance(m, DeviceContext)), None)
    return CPU if context is None else with_index(context.device)


def named_device(value: Any) -> torch.device | None:
    """The device that an argument names: a device, or a string or number that is one."""
    if isinstance(value, torch.device):
        return value
    if isinstance(value, str):
        try:
            return torch.device(value)
        except RuntimeError:
            return None
    if type(value) is int:
        try:
            return torch.device(value)
        except RuntimeError:  # there is no accelerator to count
            return torch.device("cuda", value)
    return None


def result_device(explicit: torch.device | None, operands: Iterable[torch.device], default: torch.device) -> torch.device:
    """An accelerator wins over the CPU: only zero-dimensional CPU tensors mix with others."""
    if explicit is not None:
        return with_index(explicit)
    devices = list(operands)
    return next((device for device in devices if device.type != "cpu"), devices[0] if devices else default)


def missing_device(device: torch.device) -> str | None:
    """What torch says of a device that this process does not have."""
    if device in _THERE:
        return None
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        return str(error).split("\n")[0]
    _THERE.add(device)
    return None


_THERE = {CPU, META}


def with_index(device: torch.device) -> torch.device:
    if device.index is None and device.type == "cuda" and torch.cuda.is_available():
        return torch.device("cuda", torch.cuda.current_device())
    return device
