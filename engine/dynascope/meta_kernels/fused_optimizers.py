"""Meta kernels of fused optimizers that torch gives none: they write to what they are given, and return nothing.

    torch._fused_sgd_([p], [g], [], lr=0.1, ...)     of meta tensors: None
"""

from __future__ import annotations

from typing import Any

from dynascope.meta_kernels.registration import register

NAMES = ("_fused_sgd_", "_fused_adagrad_", "_fused_adam_", "_fused_adamw_")


def _nothing(*arguments: Any, **keywords: Any) -> None:
    """What was written is read off the operator's schema."""


register({f"{name}{overload}": _nothing for name in NAMES for overload in ("", ".tensor_lr")})
