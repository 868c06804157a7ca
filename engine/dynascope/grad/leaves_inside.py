"""Whether a result's gradient leads to a tensor that the graph made itself, as a leaf that requires grad.

    w = torch.ones(3, requires_grad=True); return (x * w).sum()        leads to w, which is no input

Eager gives `w.grad`, and says that the result requires grad: a graph differentiated by its inputs alone does neither.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch


def leads_to_leaf_inside(outputs: Sequence[torch.Tensor], leaves: Sequence[Any]) -> bool:
    """`leaves` are what stands for the inputs."""
    known = {id(leaf) for leaf in leaves}
    if any(output.grad_fn is None and id(output) not in known for output in outputs):
        return True
    pending = [output.grad_fn for output in outputs if output.grad_fn is not None]
    seen = set()
    while pending:
        node = pending.pop()
        if node in seen:
            continue
        seen.add(node)
        variable = getattr(node, "variable", None)
        if variable is not None and id(variable) not in known:
            return True
        pending += [after for after, _ in node.next_functions if after is not None]
    return False
