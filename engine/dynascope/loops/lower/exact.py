"""What loops compute to the last bit as eager does: `numerics="strict"` lowers this and nothing else.

    x * y + 1     ->   loops: each operation rounds once, in the type in which eager rounds
    exp(x), sum   ->   library calls: eager's own functions, in eager's order

Data that only moves is exact, and so are the operations that IEEE 754 rounds correctly, conversions and comparisons. Not so a
square root, which torch asks a library for that may be off by one, and a scaled sum: eager's vectors multiply and add in one
rounding, its scalars in two.
"""

from __future__ import annotations

import torch

from dynascope.loops.lower.rules import Lowering
from dynascope.loops.nodes import TensorView
from dynascope.sizes import is_constant

aten = torch.ops.aten

_COMPUTED = """
    mul add sub rsub div neg abs relu clamp threshold_backward reciprocal floor ceil trunc round eq ne lt le gt ge isnan isinf
    logical_and logical_or logical_xor logical_not bitwise_and bitwise_or bitwise_xor bitwise_not where masked_fill _to_copy
"""
_MOVED = """
    clone alias_copy contiguous copy full full_like new_full zeros zeros_like new_zeros ones ones_like new_ones scalar_tensor fill
    tril triu eye reshape view_copy flatten cat constant_pad_nd flip roll repeat slice_scatter select_scatter embedding index_select
    gather index one_hot
"""
EXACT = frozenset(f"aten.{name}" for name in (_COMPUTED + _MOVED).split())


def is_exact(call: Lowering) -> bool:
    """Whether loops make the very bits that the operator makes."""
    packet = str(getattr(call.operator, "overloadpacket", call.operator))
    if packet.startswith("dynascope."):
        return True  # random numbers by a recipe of ours have no other kernel
    if packet not in EXACT or call.keywords.get("rounding_mode") is not None:
        return False
    if packet in ("aten.add", "aten.sub", "aten.rsub"):
        return is_constant(call.operand(2, "alpha", 1), 1)
    if packet == "aten.div" and call.device.type not in ("cpu", "cuda"):
        return isinstance(call.arguments[1], TensorView)  # what others' kernels do with a number is not known
    return True
