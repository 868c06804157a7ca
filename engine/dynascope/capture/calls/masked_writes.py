"""`out[mask] = values` with a value for each element that the mask chooses: `masked_scatter`, whose gradient is as large as the values.

    out[inside] = scale * x[inside]      how many are inside is one number, u0, and the values are of u0 rows

As `index_put` its gradient would be `gradient[mask]`, of which no number says that it is u0. Where the two could differ (another mask's
values, one value for all, another type) it stays what it was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from dynascope.capture.calls import known_tensors
from dynascope.capture.values import ConstantValue, TensorValue, Value
from dynascope.sizes import Size

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine


def is_written(machine: Machine, tensor: TensorValue, mask: Value, values: Value) -> bool:
    """Whether this was such an assignment: it is in the graph then."""
    from dynascope.capture.calls.tensors import apply_method

    mask, values = machine.realize(mask), machine.realize(values)
    if not isinstance(mask, TensorValue) or not isinstance(values, TensorValue) or mask.example.dtype != torch.bool:
        return False
    count = machine.sizes.counts.get((known_tensors.expression_of(mask.node), mask.example._version))
    if count is None or not fits(machine, tensor, mask, values, count):
        return False
    for _ in range(tensor.example.dim() - mask.example.dim()):
        mask = machine.realize(apply_method(machine, torch.Tensor.unsqueeze, [mask, ConstantValue(-1)], {}))
    apply_method(machine, torch.Tensor.masked_scatter_, [tensor, mask, values], {})
    return True


def fits(machine: Machine, tensor: TensorValue, mask: TensorValue, values: TensorValue, count: Size) -> bool:
    """Whether the values are a row for each element of the mask, of the tensor's own type."""
    one, chosen, other = tensor.example, mask.example, values.example
    dimensions = chosen.dim()
    if one.dtype != other.dtype or len({tensor.device, values.device, mask.device}) != 1 or not needs_gradient(values):
        return False
    if not dimensions or other.dim() != one.dim() - dimensions + 1 or one.shape[:dimensions] != chosen.shape:
        return False
    wanted = (count, *machine.extents.sizes(tensor)[dimensions:])
    return all(str(each) == str(size) for each, size in zip(machine.extents.sizes(values), wanted, strict=True))


def needs_gradient(values: TensorValue) -> bool:
    """Without one the two are the same kernel."""
    return torch.is_grad_enabled() and values.example.requires_grad
