"""Meta kernels of operators that draw samples element by element, which torch gives none.

    torch._sample_dirichlet(alpha)     of a meta tensor: one of its sizes and type, contiguous
"""

from __future__ import annotations

from typing import Any

import torch

NAMES = ("_sample_dirichlet", "binomial")
LIBRARY = torch.library.Library("aten", "IMPL", "Meta")


def _as_the_first(first: torch.Tensor, *others: Any, **keywords: Any) -> torch.Tensor:
    """Eager's kernels fill a new tensor, whatever the strides of the operand are."""
    return torch.empty(first.shape, dtype=first.dtype, device=first.device)


for _name in NAMES:
    _has_one = torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{_name}", "Meta")
    if hasattr(torch.ops.aten, _name) and not _has_one:
        LIBRARY.impl(_name, _as_the_first)
