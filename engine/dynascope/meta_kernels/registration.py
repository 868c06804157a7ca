"""Meta kernels for operators of torch's that have none.

    register({"binomial": kernel})     an operator, or overload, that this torch lacks or has a kernel for is passed over
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

LIBRARY = torch.library.Library("aten", "IMPL", "Meta")


def register(kernels: Mapping[str, Callable[..., Any]]) -> None:
    for name, kernel in kernels.items():
        operator = f"aten::{name}"
        is_there = torch._C._dispatch_has_kernel(operator)
        if is_there and not torch._C._dispatch_has_kernel_for_dispatch_key(operator, "Meta"):
            LIBRARY.impl(name, kernel)
