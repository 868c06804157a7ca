"""`scaled_dot_product_attention` with the kernel that eager would pick: on meta tensors torch sees no device to pick for.

Each kernel has its own backward kernel, with its own layouts and rounding; so the choice is visible to the user.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch

from dynascope.grad.unread_tensors import unread
from dynascope.meta_kernels import autocast

if TYPE_CHECKING:
    from dynascope.grad.record import Recorder

aten = torch.ops.aten
MATH, FLASH, EFFICIENT, CUDNN = range(4)


def attention(
    recorder: Recorder,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    if not isinstance(query, torch.Tensor):
        return NotImplemented
    operator = aten.scaled_dot_product_attention.default
    query, key, value, attn_mask = autocast.converted(operator, (query, key, value, attn_mask))
    device = recorder.value(query).device
    if device.type not in ("cpu", "cuda"):
        return NotImplemented
    masks = {
        "attn_mask": attn_mask,
        "dropout_p": dropout_p,
        "is_causal": is_causal,
        "scale": scale,
        "enable_gqa": enable_gqa,
    }
    choice = choice_of(device, query, key, value, masks)
    if device.type == "cpu" and choice == FLASH:
        mask = _additive_mask(attn_mask, query)
        return aten._scaled_dot_product_flash_attention_for_cpu(
            query, key, value, dropout_p, is_causal, attn_mask=mask, scale=scale
        )[0]
    on_cuda = CUDA_ATTENTION.get(choice) if device.type == "cuda" else None
    if on_cuda is not None:
        return on_cuda(query, key, value, masks)
    masks["attn_mask"] = _additive_mask(attn_mask, query)
    if 0 < dropout_p < 1 and (recorder.draws_seeds or device.type == "cuda"):
        return with_fused_dropout(query, key, value, masks)
    return aten._scaled_dot_product_attention_math(query, key, value, **masks)[0]


def with_fused_dropout(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, options: dict[str, Any]) -> torch.Tensor:
    """Matmuls and softmax, with the kernel of a GPU between them that drops: on meta tensors torch takes that of a CPU, which draws
    others. (`_scaled_dot_product_attention_math` in ATen's transformers/attention.cpp; halves are computed in floats there too.)"""
    dtype = query.dtype
    if dtype in (torch.float16, torch.bfloat16) and not torch.backends.cuda.fp16_bf16_reduction_math_sdp_allowed():
        query, key, value = query.float(), key.float(), value.float()
    weights = aten._scaled_dot_product_attention_math(query, key, value, **{**options, "dropout_p": 0.0})[1]
    if options["enable_gqa"] and value.shape[-3] != query.shape[-3]:
        value = value.repeat_interleave(query.shape[-3] // value.shape[-3], -3)
    kept = aten.native_dropout(weights, options["dropout_p"], True)[0] if options["dropout_p"] else weights
    return torch.matmul(kept, value).to(dtype)


def choice_of(device: torch.device, query: Any, key: Any, value: Any, options: dict[str, Any]) -> int:
    """Which kernel torch picks for tensors of these sizes, strides and dtypes on that device. Their elements do not matter."""
    with torch.utils._python_dispatch._disable_current_modes():
        like = lambda tensor: unread(tensor.shape, tensor.stride(), tensor.dtype, device).requires_grad_(tensor.requires_grad)  # noqa: E731
        tensors, mask = map(like, (query, key, value)), options["attn_mask"]
        mask = None if mask is None else like(mask)
        return torch._fused_sdp_choice(*tensors, **{**options, "attn_mask": mask})


def _additive_mask(mask: torch.Tensor | None, query: torch.Tensor, nothing: float = -math.inf) -> torch.Tensor | None:
    if mask is None or mask.dtype is not torch.bool:
        return mask
    zeros = torch.zeros((), dtype=query.dtype, device="meta")
    return torch.where(mask, zeros, nothing)


def _flash(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, options: dict[str, Any]) -> torch.Tensor:
    """Heads are filled up with zeros to a multiple of eight, and the scale is that of the true size."""
    size = query.shape[-1]
    scale = 1 / math.sqrt(size) if options["scale"] is None else options["scale"]
    if size % 8:
        query, key, value = (torch.constant_pad_nd(t, (0, 8 - size % 8)) for t in (query, key, value))
    out = aten._scaled_dot_product_flash_attention(
        query, key, value, options["dropout_p"], options["is_causal"], False, scale=scale
    )[0]
    return out[..., :size] if size % 8 else out


def _efficient(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, options: dict[str, Any]) -> torch.Tensor:
    """A mask is expanded; its rows must start at multiples of eight elements."""
    bias = _additive_mask(options["attn_mask"], query)
    if bias is not None:
        columns = key.shape[2]
        bias = bias.expand(query.shape[0], query.shape[1], query.shape[2], columns)
        if bias.stride(-1) != 1 or any(stride % 8 for stride in bias.stride()[:-1]):
            bias = torch.constant_pad_nd(bias, (0, 8 - columns % 8))[..., :columns]
    return aten._scaled_dot_product_efficient_attention(
        query, key, value, bias, _is_differentiated(query, key, value), options["dropout_p"], options["is_causal"],
        scale=options["scale"],
    )[0]  # fmt: skip


def _cudnn(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, options: dict[str, Any]) -> torch.Tensor:
    """cuDNN knows no minus infinity: eager gives it the lowest f16."""
    bias = _additive_mask(options["attn_mask"], query, nothing=-65504.0)
    return aten._scaled_dot_product_cudnn_attention(
        query, key, value, bias, _is_differentiated(query, key, value), options["dropout_p"], options["is_causal"], False,
        scale=options["scale"],
    )[0]  # fmt: skip


def _is_differentiated(*operands: torch.Tensor) -> bool:
    return torch.is_grad_enabled() and any(operand.requires_grad for operand in operands)


CUDA_ATTENTION = {FLASH: _flash, EFFICIENT: _efficient, CUDNN: _cudnn}
"""By torch's own number. Another one is its sequence of matmuls and softmax, which it runs for any other choice."""
