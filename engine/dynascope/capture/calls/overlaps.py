"""Writes to memory that several elements share, or that an operand is read from at other places: PyTorch refuses, or the order decides.

    writes_unevenly(expanded, ())                                    True
    are_lookups_of_one_table(table, (row, 3), region, operand)       True where operand is table[other_row, 5]
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import fx


def writes_unevenly(written: torch.Tensor, operands: Iterable[torch.Tensor]) -> bool:
    """Whether an element is written twice, or read as an operand's other element: PyTorch refuses, or the order decides."""
    if any(size > 1 and stride == 0 for size, stride in zip(written.shape, written.stride(), strict=True)):
        return True
    pairs = ((written, operand) for operand in operands if operand is not written and shares_memory(written, operand))
    return any(overlap_partly(*map(places, pair)) for pair in pairs)


def shares_memory(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.numel() > 0 and b.numel() > 0 and a.untyped_storage()._cdata == b.untyped_storage()._cdata


def places(tensor: torch.Tensor) -> tuple[Any, ...]:
    """Where it begins in its memory, its sizes and its strides."""
    return (tensor.storage_offset(), *tensor.shape, *tensor.stride())


def overlap_partly(a: Sequence[Any], b: Sequence[Any]) -> bool:
    """Whether two of `places` in one memory share some elements and are not the same. Sizes may be numbers that vary."""
    if len(a) == len(b) and all(one == other for one, other in zip(a, b, strict=True)):
        return False
    first, second = (a, b) if a[0] <= b[0] else (b, a)
    rank = len(first) // 2
    extent = sum((size - 1) * stride for size, stride in zip(first[1 : rank + 1], first[rank + 1 :], strict=True))
    return bool(first[0] + extent >= second[0]) and not _lie_side_by_side(first, second)


def _lie_side_by_side(first: Sequence[Any], second: Sequence[Any]) -> bool:
    """Whether in some dimension the second begins where the first has ended, and ends within the step of the next."""
    rank, rest, outer = len(first) // 2, second[0] - first[0], float("inf")
    if len(first) != len(second) or any(one != other for one, other in zip(first[rank + 1 :], second[rank + 1 :], strict=True)):
        return False
    sizes = zip(first[rank + 1 :], first[1 : rank + 1], second[1 : rank + 1], strict=True)
    for stride, length, other in sorted(sizes, reverse=True):
        if stride == 0:
            return False
        steps, rest = divmod(rest, stride)
        if steps >= length and (steps + other - 1) * stride < outer:
            return True
        outer = stride
    return False


def are_lookups_of_one_table(table: torch.Tensor, key: Any, region: torch.Tensor, operand: fx.Node) -> bool:
    """Whether `operand` is a lookup in the table too, by numbers in the same dimensions: then, whatever the numbers are, it is the
    `region` that `table[key]` is, or lies apart from it. Numbers in the keys are ints, or the graph's nodes."""
    if operand.target is not operator.getitem or not isinstance(looked_in := operand.args[0], fx.Node):
        return False
    other = looked_in.meta.get("example_value")
    if not isinstance(other, torch.Tensor) or not shares_memory(table, other) or places(table) != places(other):
        return False
    is_alike = places(region)[1:] == places(operand.meta["example_value"])[1:] and _form(key) == _form(operand.args[1])
    return is_alike and not _reaches_itself(table)


def _form(key: Any) -> list[Any]:
    """What a key is without its numbers."""
    parts = key if isinstance(key, tuple) else (key,)
    return [int if isinstance(part, (int, fx.Node)) and not isinstance(part, bool) else part for part in parts]


def _reaches_itself(tensor: torch.Tensor) -> bool:
    """Whether two elements may be in one place: the dimensions do not lie within each other's steps."""
    extent = 0
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size > 1 and stride <= extent:
            return True
        extent += (size - 1) * stride
    return False
