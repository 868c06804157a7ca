"""`torch.where` of a mask of bytes, as masks were before there were truth values.

    torch.where(mask, a, b)     torch.where(mask.to(torch.bool), a, b), and the warning that torch gives once

Meta kernels refuse what the kernels take.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from dynascope.capture.calls.arguments import Arguments, Keywords
from dynascope.capture.calls.registry import meaning
from dynascope.capture.calls.tensors import apply_function, apply_method, note_warning
from dynascope.capture.values import ConstantValue, TensorValue, Value
from dynascope.meta_kernels import torch_warnings

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine


@meaning(torch.where)
def where(machine: Machine, arguments: Arguments, keywords: Keywords) -> Any:
    if "condition" in keywords:
        return apply_function(machine, torch.where, arguments, {**keywords, "condition": as_truth(machine, keywords["condition"])})
    if len(arguments) + len(keywords) > 1 and arguments:  # with one operand it asks where that is not zero
        arguments = [as_truth(machine, arguments[0]), *arguments[1:]]
    return apply_function(machine, torch.where, arguments, keywords)


@meaning(torch.Tensor.where)
def where_of_tensor(machine: Machine, arguments: Arguments, keywords: Keywords) -> Any:
    if "condition" in keywords:
        keywords = {**keywords, "condition": as_truth(machine, keywords["condition"])}
    elif len(arguments) > 1:
        arguments = [arguments[0], as_truth(machine, arguments[1]), *arguments[2:]]
    return apply_method(machine, torch.Tensor.where, arguments, keywords)


def as_truth(machine: Machine, mask: Value) -> Value:
    mask = machine.realize(mask)
    if not isinstance(mask, TensorValue) or mask.example.dtype is not torch.uint8:
        return mask
    with torch_warnings.noted() as given:
        torch.where(torch.zeros((), dtype=torch.uint8), 1.0, 0.0)
    for warning in given:
        note_warning(machine, warning)
    return apply_method(machine, torch.Tensor.to, [mask, ConstantValue(torch.bool)], {})
