"""What autograd remembers of meta tensors, and which memory is whose, as far as a capture knows them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import fx


def functions_of(examples: Iterable[torch.Tensor]) -> list[Any]:
    """Autograd's functions that the tensors came from, each once."""
    pending = [example.grad_fn for example in examples if example.grad_fn is not None]
    found = dict.fromkeys(pending)
    while pending:
        for function, _ in pending.pop().next_functions:
            if function is not None and function not in found:
                found[function] = None
                pending.append(function)
    return list(found)


def storage_of(node: fx.Node) -> int | None:
    """The identity of the memory that a node's tensor lies in."""
    example = node.meta.get("example_value")
    return example.untyped_storage()._cdata if isinstance(example, torch.Tensor) else None
