"""The GPU part of a built graph: what its wrapper's names for Triton kernels and for CUDA memory stand for.

names = cuda_names(runnable.triton)       # {"softmax_kernel": <launcher>, "empty_cuda": ...}
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from dynascope.codegen.runnable import TritonLaunch
from dynascope.report.reason import Explanation
from dynascope.runtime.cuda_compile import compile_kernels
from dynascope.runtime.cuda_launch import launcher_note, make_launcher, target_of


def cuda_names(launches: tuple[TritonLaunch, ...], folder: Path | None = None) -> dict[str, Any]:
    """Kernels are kept in `folder`, or else in the cache. Raises KernelError where a kernel cannot be built."""
    # All at once, so that they build in parallel; each launcher then finds its own in the cache.
    for device in dict.fromkeys(launch.device for launch in launches):
        compile_kernels([launch.kernel for launch in launches if launch.device == device], target_of(device), folder)
    names: dict[str, Any] = {
        launch.kernel.name: make_launcher([launch.kernel], launch.slots, launch.device, folder) for launch in launches
    }
    names["empty_cuda"] = _allocator()
    return names


def cuda_notes(launches: tuple[TritonLaunch, ...]) -> tuple[Explanation, ...]:
    """What went otherwise than planned on the GPU."""
    note = launcher_note(launches[0].device)
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
