"""Meta kernels of fake quantisation that torch gives none: results lie in memory as `empty_like` of what is quantised.

    torch.fake_quantize_per_tensor_affine(x, 0.1, 0, -128, 127)     of a meta tensor: one like it; the mask for the gradient is of bools
"""

from __future__ import annotations

from typing import Any

import torch

from dynascope.meta_kernels.registration import register


def _with_mask(tensor: torch.Tensor, *arguments: Any, **keywords: Any) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.empty_like(tensor), torch.empty_like(tensor, dtype=torch.bool)


def _alone(tensor: torch.Tensor, *arguments: Any, **keywords: Any) -> torch.Tensor:
    return torch.empty_like(tensor)


def _gradients(
    gradient: torch.Tensor, tensor: torch.Tensor, scale: torch.Tensor, zero_point: torch.Tensor, *arguments: Any, **keywords: Any
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return torch.empty_like(tensor), scale.new_empty(scale.numel()), zero_point.new_empty(zero_point.numel())


register(
    {
        "fake_quantize_per_tensor_affine_cachemask": _with_mask,
        "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams": _with_mask,
        "fake_quantize_per_channel_affine_cachemask": _with_mask,
        "_fake_quantize_learnable_per_tensor_affine": _alone,
        "_fake_quantize_learnable_per_channel_affine": _alone,
        "_fake_quantize_learnable_per_tensor_affine_backward": _gradients,
        "_fake_quantize_learnable_per_channel_affine_backward": _gradients,
    }
)
