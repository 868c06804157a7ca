"""Collectives of torch's functional library, which go on after they return, and the waits for them.

    a = all_reduce(y); w = wait_tensor(a); z = x.cos(); w + z       ->  all_reduce, cos, wait_tensor, add

They run in the program's order, as every rank must have it. A wait runs when its result is first read, as eager's tensors of
collectives wait at their first use: what stands in between runs meanwhile. Until then the memory of the operands is theirs.
"""

from __future__ import annotations

from typing import Any

import torch

NAMESPACES = ("_c10d_functional", "c10d_functional", "_c10d_functional_autograd")


def is_collective(operator: Any) -> bool:
    """A wait too: its result is its operand."""
    return isinstance(operator, torch._ops.OpOverload) and operator.namespace in NAMESPACES


def is_wait(operator: Any) -> bool:
    return is_collective(operator) and operator._schema.name.endswith("::wait_tensor")
