"""Lists of tensors that one operator writes, of which some lie in each other's memory.

    torch._foreach_mul_([a, a], 2)      a := a * 2, and then a := a * 2

Eager goes through such lists one tensor after the other. Where none is met twice, all can be computed of what was there before.
"""

from __future__ import annotations

import collections
from collections.abc import Collection, Iterator
from typing import Any

import torch


def write_what_others_have(operands: Collection[Any], targets: Collection[torch.Tensor]) -> bool:
    """Whether a written tensor shares elements with what another place of the lists has, or with an operand of all places."""
    known = collections.defaultdict(list)
    for operand in operands:
        for place, tensor in _with_places(operand):
            known[tensor.untyped_storage()._cdata].append((place, tensor))
    for place, tensor in enumerate(targets):
        others = [other for at, other in known[tensor.untyped_storage()._cdata] if at != place]
        if others and any(_meet(_reach(tensor), _reach(other)) for other in others):
            return True
    return False


def _with_places(operand: Any) -> Iterator[tuple[int, torch.Tensor]]:
    if isinstance(operand, torch.Tensor):
        yield -1, operand
    elif isinstance(operand, (list, tuple)):
        yield from ((place, each) for place, each in enumerate(operand) if isinstance(each, torch.Tensor))


def _meet(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return one[0] < other[1] and other[0] < one[1]


def _reach(tensor: torch.Tensor) -> tuple[int, int]:
    """From its first element in memory to behind its last."""
    start = tensor.storage_offset()
    if not tensor.numel():
        return start, start
    return start, start + 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
