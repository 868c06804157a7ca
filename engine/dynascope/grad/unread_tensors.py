"""Tensors that torch is asked about and does not read: which kernel it picks depends on how operands lie, not on what they hold.

    unread([5042, 64, 56, 56], ..., torch.float32, cpu)  ->  a tensor of these sizes, 4 GB in its own words, 8 bytes in truth

Sizes that vary are asked about at numbers that no device has room for.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import torch

from dynascope.grad.tape import elements_spanned


def unread(sizes: Sequence[int], strides: Sequence[int], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """A tensor of this layout whose storage says that it has all that memory. It must not be read or written."""
    byte_count = elements_spanned(sizes, strides) * dtype.itemsize
    storage = torch._C._construct_storage_from_data_pointer(_element(device).data_ptr(), device, byte_count)
    return torch.empty(0, dtype=dtype, device=device).set_(storage, 0, sizes, strides)


@functools.cache
def _element(device: torch.device) -> torch.Tensor:
    """Where all of them begin."""
    return torch.empty(1, dtype=torch.float64, device=device)
