"""Python numbers that kernels are passed at each call: those that eager looks at first, and those read off CPU tensors.

x.add(y, alpha=a) in f32   ->   checked = checking(f32)(a);  add (load x) (multiply (load y) %checked)
x / v, v on the CPU        ->   number = item_of(v);  divide (load x) (cast f32 %number)
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import torch

from dynascope.loops.dtypes import limits
from dynascope.loops.lower.rules import Lowering
from dynascope.loops.nodes import ExternCall, ScalarInput, TensorView


def checked(call: Lowering, number: ScalarInput, dtype: torch.dtype) -> ScalarInput:
    """The same number, after a look at each call whether `dtype` holds it."""
    if dtype in (torch.float64, torch.int64, torch.bool):
        return number
    result = ScalarInput(call.new_name(f"{number.name}_checked"), number.kind)
    name = call.new_name(f"call_{call.node.name}_number")
    why = "eager refuses numbers that do not fit"
    call.before.append(ExternCall(name, checking(dtype), (number,), {}, (result,), call.origin, why))
    return result


def passed_as_number(call: Lowering, view: TensorView) -> ScalarInput:
    """The element of a tensor without dimensions on the CPU, for a call that runs elsewhere."""
    result = ScalarInput(call.new_name(f"{view.buffer}_number"), "float" if view.dtype.is_floating_point else "int")
    name = call.new_name(f"call_{call.node.name}_item")
    why = "a number on the CPU, for a kernel elsewhere"
    call.before.append(ExternCall(name, item_of, (view,), {}, (result,), call.origin, why))
    return result


def item_of(tensor: torch.Tensor) -> float:
    return tensor.item()


@cache
def checking(dtype: torch.dtype) -> Callable[[float], float]:
    least, greatest = limits(dtype)

    def checked_number(number: float) -> float:
        if not least <= number <= greatest:
            torch.full((), number, dtype=dtype)  # raises eager's own error, but for infinities
        return number

    return checked_number
