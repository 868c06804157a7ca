"""`out[mask] = values` whose gradient does not depend on how many the mask chooses.

    out[inside] = scale * x[inside]      `masked_scatter`: how many are inside is one number, u0, and the values are of u0 rows
    embeds[ids == image] = features      `masked_scatter`, after a check that as many are chosen as there are features
    out[ids == end] = self.embedding     `where`: the same row for all of them, whose gradient is a sum
    scale[scale > 5] = 5.0               `masked_fill`, where the mask is one truth value

As `index_put` its gradient would be `gradient[mask]`, of which no number says that it is u0. Where the values could be others
(of another mask, of another type) it stays what it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from dynascope.capture.calls import known_tensors
from dynascope.capture.library_checks import is_caught, make_sure
from dynascope.capture.values import ConstantValue, TensorValue, Value
from dynascope.sizes import Size

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine


def is_written(machine: Machine, tensor: TensorValue, mask: Value, values: Value) -> bool:
    """Whether this was such an assignment: it is in the graph then."""
    from dynascope.capture.calls.tensors import apply_function, apply_method

    mask, values = machine.realize(mask), machine.realize(values)
    if not isinstance(mask, TensorValue) or mask.example.dtype != torch.bool:
        return False
    chosen = mask.example
    if not chosen.dim():
        return is_filled(machine, tensor, mask, values)
    if not isinstance(values, TensorValue) or tensor.example.shape[: chosen.dim()] != chosen.shape or not needs_gradient(values):
        return False
    if not are_alike(tensor, values) or mask.device != tensor.device:
        return False
    row = machine.extents.sizes(tensor)[chosen.dim() :]
    count = machine.sizes.counts.get((known_tensors.expression_of(mask.node), mask.example._version))
    is_one_row = is_spread_over(machine, values, (1, *row))
    if not is_one_row and (count is None or not is_same(machine, values, (count, *row))):
        given = machine.extents.sizes(values)[:1]
        if not given or not is_same(machine, values, (*given, *row)) or not makes_sure(machine, mask, given[0]):
            return False
    for _ in row:
        mask = machine.realize(apply_method(machine, torch.Tensor.unsqueeze, [mask, ConstantValue(-1)], {}))
    if is_one_row:
        written = apply_function(machine, torch.where, [mask, values, tensor], {})
        apply_method(machine, torch.Tensor.copy_, [tensor, written], {})
    else:
        apply_method(machine, torch.Tensor.masked_scatter_, [tensor, mask, values], {})
    return True


def is_filled(machine: Machine, tensor: TensorValue, mask: TensorValue, value: Value) -> bool:
    """Where one truth value says whether all of the tensor is written: with a number."""
    from dynascope.capture.calls.tensors import apply_method

    if isinstance(value, TensorValue):
        is_number = not value.example.dim() and are_alike(tensor, value)
    else:
        kinds = (bool, int, float) if tensor.example.is_floating_point() else (bool, int)
        is_number = isinstance(value, ConstantValue) and type(value.value) in kinds and has_places_of_its_own(tensor)
    if is_number and mask.device == tensor.device:
        apply_method(machine, torch.Tensor.masked_fill_, [tensor, mask, value], {})
    return is_number and mask.device == tensor.device


def makes_sure(machine: Machine, mask: TensorValue, count: int | Size) -> bool:
    """Whether the graph may check how many the mask chooses. Eager raises where there are others."""
    from dynascope.capture.calls.tensors import apply_function, apply_method

    if is_caught(machine) or (mask.device.type != "cpu" and not machine.options.checks_devices):
        return False
    chosen = apply_method(machine, torch.Tensor.sum, [mask], {})
    make_sure(machine, apply_function(machine, torch.eq, [chosen, machine.sizes.value(count)], {}))
    return True


def are_alike(tensor: TensorValue, values: TensorValue) -> bool:
    """Whether other operators take them as `index_put` does: of one type, and no two elements in one place."""
    one, other = tensor.example, values.example
    is_apart = one.untyped_storage()._cdata != other.untyped_storage()._cdata
    return one.dtype == other.dtype and tensor.device == values.device and has_places_of_its_own(tensor) and is_apart


def has_places_of_its_own(tensor: TensorValue) -> bool:
    """Whether no dimension repeats its elements."""
    return all(step or size < 2 for size, step in zip(tensor.example.shape, tensor.example.stride(), strict=True))


def is_spread_over(machine: Machine, values: TensorValue, sizes: Sequence[int | Size]) -> bool:
    """Whether the values broadcast to such sizes."""
    found = machine.extents.sizes(values)
    pairs = zip(reversed(found), reversed(sizes), strict=False)
    return len(found) <= len(sizes) and all(str(each) in ("1", str(size)) for each, size in pairs)


def is_same(machine: Machine, values: TensorValue, sizes: Sequence[int | Size]) -> bool:
    found = machine.extents.sizes(values)
    return len(found) == len(sizes) and all(str(each) == str(size) for each, size in zip(found, sizes, strict=True))


def needs_gradient(values: TensorValue) -> bool:
    """Without one the two are the same kernel."""
    return torch.is_grad_enabled() and values.example.requires_grad
