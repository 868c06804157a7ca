"""How the wrapper calls torch's operators.

fastest(torch.ops.aten.mm.default)   ->   torch.mm
"""

from __future__ import annotations

from typing import Any

import torch

KNOWN_LAYOUT = frozenset(("aten.mm.default", "aten.addmm.default", "aten.bmm.default", "aten.baddbmm.default"))
"""Library calls whose result is laid out as the meta function says."""


def is_torchs_own(operator: Any) -> bool:
    """And of no library of the program's."""
    return isinstance(operator, torch._ops.OpOverload) and operator.namespace in ("aten", "prims")


def fastest(operator: Any) -> Any:
    """The fastest way from Python to the same kernel."""
    name = str(operator)
    if name in KNOWN_LAYOUT:
        return getattr(torch, name.split(".")[1])
    return getattr(operator, "_op", operator)
