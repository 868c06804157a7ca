"""Numbers that torch's optimizers keep in tensors, such as how many steps were made: they stay tensors inside a graph.

    step = _get_value(state["step"])            eager reads a Python float; here a 0-dimensional float64, which promotes like one
    p.addcdiv_(m, v, value=-rate)               a number by its schema: with a tensor it is written as what it computes
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.optim import optimizer

from dynascope.capture.calls import equivalents
from dynascope.capture.calls.arguments import Arguments, Keywords
from dynascope.capture.calls.registry import meaning
from dynascope.capture.calls.tensors import apply_function, apply_method
from dynascope.capture.values import NONE, ListValue, TensorValue, TupleValue, Value
from dynascope.meta_kernels import fused_optimizers  # noqa: F401 (it registers them)

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine


@meaning(optimizer._get_value)
def value_of_state(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    value = machine.realize(arguments[0])
    if not isinstance(value, TensorValue):
        return value
    return apply_method(machine, torch.Tensor.double, [value], {})


def scaled_by_tensor(method: Any, equivalent: Any) -> None:
    """`method(self, one, other, value=)`: where the value is a tensor, `equivalent` of the same arguments is followed."""

    @meaning(method)
    def call(machine: Machine, arguments: Arguments, keywords: Keywords) -> Any:
        value = machine.realize(keywords.get("value", NONE))
        if isinstance(value, TensorValue) and len(arguments) == 3:
            return equivalents.enter(machine, equivalent, [*arguments, value])
        return apply_method(machine, method, arguments, keywords)


scaled_by_tensor(torch.Tensor.addcdiv_, equivalents.add_quotient)
scaled_by_tensor(torch.Tensor.addcmul_, equivalents.add_product)


def scaled_by_tensors(function: Any, equivalent: Any) -> None:
    """`function(tensors, ones, others, scalars)`: where the numbers are the elements of one tensor, or tensors themselves,
    each is used by itself."""

    @meaning(function)
    def call(machine: Machine, arguments: Arguments, keywords: Keywords) -> Any:
        scalars = machine.realize(arguments[3]) if len(arguments) == 4 else NONE
        given = scalars.items if isinstance(scalars, ListValue | TupleValue) else (scalars,)
        if any(isinstance(machine.realize(each), TensorValue) for each in given):
            return equivalents.enter(machine, equivalent, arguments)
        return apply_function(machine, function, arguments, keywords)


scaled_by_tensors(torch._foreach_addcdiv_, equivalents.add_quotients)
scaled_by_tensors(torch._foreach_addcmul_, equivalents.add_products)
