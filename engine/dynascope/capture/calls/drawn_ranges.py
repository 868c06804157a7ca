"""Comparisons that come out the same whatever is drawn.

    p = torch.rand([])
    if p < self.layerdrop:          never, where `layerdrop` is 0.0: the layer is not skipped, and the number is drawn all the same

`torch.rand` gives numbers of [0, 1) (in half precision some round to 1).
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx

from dynascope.capture.calls.unwritten import is_unwritten

DRAWS = (torch.rand, torch.rand_like)
LEAST, MOST = 0, 1
BELOW = {operator.lt: True, torch.lt: True, "lt": True, operator.ge: False, torch.ge: False, "ge": False}
"""`draw < number`, and whether that is what the function says or its opposite."""
NOT_ABOVE = {operator.le: True, torch.le: True, "le": True, operator.gt: False, torch.gt: False, "gt": False}
"""`draw <= number`."""
TURNED = {operator.lt: operator.gt, operator.gt: operator.lt, operator.le: operator.ge, operator.ge: operator.le}


def decided(node: fx.Node) -> bool | None:
    """What every element of a comparison of a draw with a number is; None where that depends on the draw."""
    if node.op not in ("call_function", "call_method") or len(node.args) != 2 or node.kwargs or not is_unwritten(node):
        return None
    function, (left, right) = node.target, node.args
    if not isinstance(left, fx.Node):
        function, left, right = TURNED.get(function), right, left
    if not is_draw(left) or type(right) not in (bool, int, float):
        return None
    if function in BELOW and (right <= LEAST or right > MOST):
        return (right > MOST) is BELOW[function]
    if function in NOT_ABOVE and (right < LEAST or right >= MOST):
        return (right >= MOST) is NOT_ABOVE[function]
    return None


def is_draw(node: Any) -> bool:
    """Whether it holds what was drawn."""
    if not isinstance(node, fx.Node) or node.target not in DRAWS or "out" in node.kwargs:
        return False
    return is_unwritten(node) and not node.meta["example_value"].dtype.is_complex
