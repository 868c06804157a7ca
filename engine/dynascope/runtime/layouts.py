"""Results of library calls, in the layout that the rest of the graph was generated for."""

from __future__ import annotations

import torch


def restrided(
    tensor: torch.Tensor, sizes: tuple[int, ...], strides: tuple[int, ...], dtype: torch.dtype
) -> torch.Tensor:
    """A copy with these strides and dtype. Raises RuntimeError where the sizes differ: nothing can be made of that."""
    if tensor.shape != sizes:
        raise RuntimeError(
            f"dynascope: an operator gave a result of size {tuple(tensor.shape)} where torch's meta function says {sizes}. "
            "Run this function uncompiled (dynascope.disable), and please report it."
        )
    if torch._C._functorch.is_batchedtensor(tensor):  # gradients of several tangents at once: each has these strides
        return tensor.new_empty_strided(sizes, strides, dtype=dtype).copy_(tensor)
    made = torch.empty_strided(sizes, strides, dtype=dtype, device=tensor.device)
    made.data.copy_(tensor)  # a new result counts as never written
    return made


def laid_out(
    tensor: torch.Tensor, sizes: tuple[int, ...], strides: tuple[int, ...], dtype: torch.dtype
) -> torch.Tensor:
    """The same for results that this graph only hands on: one of another size stays what the library made."""
    return restrided(tensor, sizes, strides, dtype) if tensor.shape == sizes else tensor
