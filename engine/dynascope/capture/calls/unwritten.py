"""Whether a tensor still holds what its operation gave: nobody has written there since, by the versions of its example."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx


def note_birth(node: fx.Node, example: Any) -> None:
    """Some kernels for meta tensors write to what they make before they give it (`torch.isclose`): that is no write of the program's."""
    if isinstance(example, torch.Tensor) and not example.is_inference() and example._version:
        node.meta["born"] = example._version


def is_unwritten(node: fx.Node) -> bool:
    example = node.meta.get("example_value")
    return isinstance(example, torch.Tensor) and "written" not in node.meta and example._version == node.meta.get("born", 0)
