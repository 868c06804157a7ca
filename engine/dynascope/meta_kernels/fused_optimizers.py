"""Meta kernels of fused optimizers that torch gives none: they write to what they are given, and return nothing.

    torch._fused_sgd_([p], [g], [], lr=0.1, ...)     of meta tensors: None
"""

from __future__ import annotations

from typing import Any

import torch

FUSED = ("_fused_sgd_", "_fused_adagrad_", "_fused_adam_", "_fused_adamw_")
NAMES = (*FUSED, *(f"{name}.tensor_lr" for name in FUSED))
LIBRARY = torch.library.Library("aten", "IMPL", "Meta")


def _nothing(*arguments: Any, **keywords: Any) -> None:
    """What was written is read off the operator's schema."""


for _name in NAMES:
    _is_there = torch._C._dispatch_has_kernel(f"aten::{_name}")
    if _is_there and not torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{_name}", "Meta"):
        LIBRARY.impl(_name, _nothing)
