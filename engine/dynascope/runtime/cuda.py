"""The GPU part of a built graph: what its wrapper's names for Triton kernels and for CUDA memory stand for.

names = cuda_names(module)       # {"softmax_kernel": <launcher>, "empty_cuda": ...}; empty without Triton kernels
"""

from __future__ import annotations

from typing import Any

import torch

from dynascope.codegen.kernels import KernelModule
from dynascope.report.reason import Explanation
from dynascope.runtime.cuda_compile import compile_kernels
from dynascope.runtime.cuda_launch import launcher_note, make_launcher, target_of


def cuda_names(module: KernelModule) -> dict[str, Any]:
    """Raises KernelError where a kernel cannot be built."""
    kernels = [kernel for kernel in module.distinct if kernel.triton is not None]
    if not kernels:
        return {}
    # All at once, so that they build in parallel; each launcher then finds its own in the cache.
    for device in dict.fromkeys(kernel.group.device for kernel in kernels):
        compile_kernels([k.triton for k in kernels if k.group.device == device], target_of(device))
    names: dict[str, Any] = {
        k.name: make_launcher([k.triton], (*k.buffers, *k.scalars), k.group.device) for k in kernels
    }
    names["empty_cuda"] = _allocator()
    return names


def cuda_notes(module: KernelModule) -> tuple[Explanation, ...]:
    """What went otherwise than planned on the GPU."""
    device = next((k.group.device for k in module.distinct if k.triton is not None), None)
    note = launcher_note(device) if device is not None else None
    return () if note is None else (note,)


def _allocator() -> Any:
    """(sizes, strides, dtype) -> memory of the first device. torch's fast one allocates on the current device, which
    is the first only where there is no other."""
    from torch._C._dynamo.guards import _empty_strided_cuda

    if torch.cuda.device_count() == 1:
        return _empty_strided_cuda
    return _empty_on_first


def _empty_on_first(sizes: tuple[int, ...], strides: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    return torch.empty_strided(sizes, strides, dtype=dtype, device=torch.device("cuda", 0))
