"""What the fake of an operator says comes out, beside what does: a graph relies on the fake, eager never asks it.

watch_fakes()       every operator that the program makes with torch.library.custom_op raises where the two differ
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch.utils import _pytree as pytree


def watch_fakes() -> None:
    register = torch.library.custom_op

    @functools.wraps(register)
    def custom_op(*args: Any, **kwargs: Any) -> Any:
        made = register(*args, **kwargs)
        if isinstance(made, type(register)):
            # Used as a decorator with arguments: the operator comes with the function.
            return lambda function: _watched(made(function))
        return _watched(made)

    torch.library.custom_op = custom_op


def _watched(operator: Any) -> Any:
    kind = type(operator)
    if not hasattr(kind.__call__, "dynascope_watches"):
        kind.__call__ = _compared(kind.__call__)
    return operator


def _compared(call: Any) -> Any:
    @functools.wraps(call)
    def compared(self: Any, *args: Any, **kwargs: Any) -> Any:
        given = pytree.tree_map_only(torch.Tensor, _without_contents, (args, kwargs))
        result = call(self, *args, **kwargs)
        try:
            said = call(self, *given[0], **given[1])
        except Exception:
            # Without a fake no graph holds it, which is what the report of the captured run says.
            return result
        if _types(said) != _types(result):
            raise RuntimeError(f"the fake of {self} says {_types(said)}, and its result is {_types(result)}")
        return result

    compared.dynascope_watches = True  # type: ignore[attr-defined]
    return compared


def _without_contents(tensor: torch.Tensor) -> torch.Tensor:
    return torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device="meta")


def _types(result: Any) -> list[Any]:
    """Strides of dimensions of one element say nothing."""
    return [
        (str(each.dtype), *((size, stride if size > 1 else None) for size, stride in zip(each.shape, each.stride(), strict=True)))
        if isinstance(each, torch.Tensor)
        else type(each).__name__
        for each in pytree.tree_leaves(result)
    ]
