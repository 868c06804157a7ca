"""Meta kernels of fused optimizers that torch gives none: they write to what they are given, and return nothing.

    torch._fused_sgd_([p], [g], [], lr=0.1, ...)     of meta tensors: None
"""

from __future__ import annotations

from typing import Any

import torch

NAMES = ("_fused_sgd_", "_fused_adagrad_")
LIBRARY = torch.library.Library("aten", "IMPL", "Meta")


def _nothing(*arguments: Any, **keywords: Any) -> None:
    """What was written is read off the operator's schema."""


for _name in NAMES:
    _has_one = torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{_name}", "Meta")
    if hasattr(torch.ops.aten, _name) and not _has_one:
        LIBRARY.impl(_name, _nothing)
