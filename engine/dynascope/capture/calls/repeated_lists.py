"""Lists of as many tensors as a number says that varies: `torch.stack([x] * n)` is a tensor repeated, and one graph for each n.

    [x, y] * n                     a list that nobody has looked into; whoever does has n fixed
    torch.cat([x, y] * n, 1)       torch.tile(torch.cat([x, y], 1), (1, n))
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from dynascope.capture.values import ConstantValue, ListValue, SymbolicNumber, TensorValue, Value, constant_of

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine

JOINING = {torch.stack, torch.cat, torch.concat, torch.concatenate}
MOST_PLAIN = 2
"""Dimensions: stacked they are three."""
Apply = Callable[[Callable[..., Any], list[Value]], Value]


def repeated(machine: Machine, left: Value, right: Value) -> ListValue | None:
    """The product of a list and a number that varies; None of others, and where only the run knows how long it is."""
    sequence, number = (left, right) if isinstance(left, ListValue) else (right, left)
    if not isinstance(sequence, ListValue) or not isinstance(number, SymbolicNumber) or number.size.kind is not int:
        return None
    if sequence.instance is not None or sequence.python_type is not list or machine.sizes.is_late(number):
        return None
    items = list(sequence.items)
    if not items or not all(map(_lies_plainly, map(machine.realize, items))):
        return None
    found = ListValue(lambda: items * constant_of(machine.known(number)))
    found.repeated = items, number
    return found


def _lies_plainly(item: Value) -> bool:
    """Whether it is joined with others row by row: of images the channels may lie last."""
    if not isinstance(item, TensorValue) or item.python_type is not torch.Tensor:
        return False
    return item.example.dim() <= MOST_PLAIN or item.example.is_contiguous()


def joined(
    machine: Machine, function: Callable[..., Any], arguments: list[Value], keywords: dict[str, Value], apply: Apply
) -> Value | None:
    """What `stack` or `cat` gives of such a list; None of other calls."""
    given = [*arguments, *(keywords[name] for name in ("tensors", "dim") if name in keywords)]
    if function not in JOINING or len(given) > 2 or len(given) < len(arguments) + len(keywords):
        return None
    tensors, dimension = machine.realize(given[0]), machine.realize(given[1]) if len(given) > 1 else ConstantValue(0)
    if not isinstance(tensors, ListValue) or (product := tensors.product) is None:
        return None
    items, number = product
    if type(constant_of(dimension)) is not int or not number.size >= 1:
        return None
    once = apply(function, [ListValue(list(items)), dimension])
    if not isinstance(once, TensorValue):
        return None
    times: list[Value] = [ConstantValue(1)] * once.example.dim()
    times[constant_of(dimension)] = number
    return apply(torch.tile, [once, ListValue(times)])
